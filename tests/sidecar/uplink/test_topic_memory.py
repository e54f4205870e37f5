"""How topics are divided is remembered over restarts, so that keys keep their partition."""

import pytest

from sidecar.uplink.topic_memory import TopicInfo, TopicMemory


def test_what_was_noted_is_known_by_the_next_run_and_defaults_take_no_room(tmp_path):
    memory = TopicMemory(tmp_path)
    memory.note("orders", TopicInfo(3, "round_robin"), 10)
    memory.note("plain", TopicInfo(), 10)
    assert TopicMemory(tmp_path).topics == {"orders": TopicInfo(3, "round_robin")}
    memory.note("orders", TopicInfo(), 10)
    assert TopicMemory(tmp_path).topics == {}


def test_the_same_again_is_not_written(tmp_path):
    memory = TopicMemory(tmp_path)
    memory.note("orders", TopicInfo(3), 10)
    before = (tmp_path / "topics.json").stat().st_ino
    memory.note("orders", TopicInfo(3), 10)
    assert (tmp_path / "topics.json").stat().st_ino == before


def test_so_many_are_kept_and_no_more(tmp_path):
    memory = TopicMemory(tmp_path)
    for number in range(5):
        memory.note(f"t{number}", TopicInfo(2), 3)
    assert list(TopicMemory(tmp_path).topics) == ["t2", "t3", "t4"]


@pytest.mark.parametrize("text", [b"", b"[]", b'{"a":{"partitions":0}}', b'{"a":1}'])
def test_a_damaged_file_is_as_none(tmp_path, text):
    (tmp_path / "topics.json").write_bytes(text)
    memory = TopicMemory(tmp_path)
    assert memory.topics == {}
    memory.note("orders", TopicInfo(3), 10)
    assert TopicMemory(tmp_path).topics == {"orders": TopicInfo(3)}


def test_a_disk_that_takes_nothing_costs_only_the_memory(tmp_path):
    (tmp_path / "topics.new").mkdir()
    memory = TopicMemory(tmp_path)
    memory.note("orders", TopicInfo(3), 10)
    assert memory.topics == {"orders": TopicInfo(3)}


async def test_a_key_keeps_its_partition_in_a_sidecar_that_starts_during_an_outage(mesh):
    mesh.log.topic("t", partitions=4)
    sidecar = await mesh.sidecar()
    where = {}
    for key in "abcdefgh":
        _, answer = await sidecar.publish({"topic": "t", "message": 0, "key": key})
        where[key] = answer["partition"]
    assert len(set(where.values())) > 1
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    await mesh.gatekeeper.listening.stop()
    again = await mesh.sidecar(connected=False)
    for key in where:
        assert (await again.publish({"topic": "t", "message": 1, "key": key}))[0] == 202
    await mesh.gatekeeper.listening.start()
    await again.connected()
    await again.until(lambda: again.assembly.outbox.records == 0)
    for partition in range(4):
        expected = [b"0"] * list(where.values()).count(partition)
        assert mesh.log.values("t", partition) == expected + [b"1"] * len(expected)
