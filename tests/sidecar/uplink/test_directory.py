"""What is known of topics, how long it is believed, and what holds while nobody answers."""

import asyncio

import pytest

from sidecar.uplink.directory import FRESH_S, GUESS_S, TOPICS_MAX, Directory, parse_topic
from sidecar.uplink.topic_memory import TopicInfo


@pytest.fixture
async def directory(mesh, open_gateway):
    """A directory whose clock the test moves."""
    opened = await open_gateway()
    now = [0.0]
    found = Directory(opened.gateway, clock=lambda: now[0])
    found.now = now
    return found


def questions(mesh, topic):
    return mesh.gatekeeper.requests.count(("GET", f"/v1/topics/{topic}"))


async def test_a_topic_is_asked_for_once_and_then_known(mesh, directory):
    mesh.log.topic("orders", partitions=3, strategy="round_robin")
    assert directory.known("orders") is None
    info = await directory.lookup("orders")
    assert info == TopicInfo(3, "round_robin")
    assert directory.known("orders") == directory.latest("orders") == info
    assert await directory.lookup("orders") is info
    assert questions(mesh, "orders") == 1


async def test_many_who_ask_at_the_same_time_share_one_question(mesh, directory):
    answers = await asyncio.gather(*(directory.lookup("orders") for _ in range(50)))
    assert set(answers) == {TopicInfo()}
    assert questions(mesh, "orders") == 1


async def test_whoever_stops_waiting_does_not_take_the_answer_from_the_others(mesh, directory):
    mesh.log.topic("orders", partitions=2)
    impatient = asyncio.create_task(directory.lookup("orders"))
    patient = asyncio.create_task(directory.lookup("orders"))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).partitions == 2


async def test_when_the_sidecar_stops_nobody_waits_for_a_description(mesh, directory):
    mesh.log.topic("known", partitions=3)
    await directory.lookup("known")
    directory.now[0] = FRESH_S
    mesh.gatekeeper.hang_topics = asyncio.Event()
    waiting = [asyncio.create_task(directory.lookup(topic)) for topic in ("known", "new")]
    await asyncio.sleep(0)  # Both wait now.
    directory.hurry()
    assert await asyncio.gather(*waiting) == [TopicInfo(3), TopicInfo()]
    assert directory.known("another") == await directory.lookup("another") == TopicInfo()
    assert questions(mesh, "another") == 0
    mesh.gatekeeper.hang_topics.set()


async def test_a_description_grows_old_and_is_asked_for_again(mesh, directory):
    await directory.lookup("orders")
    mesh.log.topics["orders"]["partitions"] = 5
    directory.now[0] = FRESH_S - 1
    assert (await directory.lookup("orders")).partitions == 1
    directory.now[0] = FRESH_S
    assert directory.known("orders") is None
    assert directory.latest("orders") == TopicInfo()
    assert (await directory.lookup("orders")).partitions == 5


async def test_a_forgotten_topic_is_asked_for_at_the_next_use(mesh, directory):
    await directory.lookup("orders")
    directory.forget("orders")
    directory.forget("never known")
    assert directory.latest("orders") is None
    await directory.lookup("orders")
    assert questions(mesh, "orders") == 2


async def test_while_nobody_answers_the_last_description_holds_for_a_short_while(mesh, directory):
    mesh.log.topic("orders", partitions=4)
    await directory.lookup("orders")
    await mesh.gatekeeper.listening.stop()
    directory.now[0] = FRESH_S
    assert (await directory.lookup("orders")).partitions == 4
    assert (await directory.lookup("unknown")) == TopicInfo(1, "key")
    directory.now[0] += GUESS_S
    assert directory.known("orders") is None
    await mesh.gatekeeper.listening.start()
    mesh.log.topics["orders"]["partitions"] = 6
    assert (await directory.lookup("orders")).partitions == 6


async def test_a_denied_topic_is_a_guess_since_the_append_will_be_told_why(directory):
    assert await directory.lookup("forbidden.x") == TopicInfo()
    directory.now[0] = GUESS_S
    assert directory.known("forbidden.x") is None


async def test_so_many_descriptions_are_kept_and_no_more(mesh, directory):
    await directory.lookup("first")
    await mesh.gatekeeper.listening.stop()
    for number in range(TOPICS_MAX):
        directory._known[f"t{number}"] = TopicInfo(), 1e9
    await directory.lookup("last")
    assert len(directory._known) == TOPICS_MAX
    assert directory.latest("first") is None
    assert directory.latest("last") is not None


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"partitions": 1},
        {"partitions": "1", "strategy": "key"},
        {"partitions": 0, "strategy": "key"},
        {"partitions": 1, "strategy": None},
    ],
)
def test_what_is_no_description_is_none(document):
    assert parse_topic(document) is None


def test_a_description_has_partitions_and_a_strategy():
    document = {"name": "t", "partitions": 3, "strategy": "sticky", "version": 1}
    assert parse_topic(document) == TopicInfo(3, "sticky")
