"""An id is looked up in the log itself."""

import pytest

from sidecar.publish.id_search import CannotTell, find_id, find_ids


@pytest.fixture
async def gateway(mesh):
    """A gateway to a log that holds some messages with ids and some without."""
    sidecar = await mesh.sidecar()
    mesh.log.topic("t", partitions=2, strategy="key")
    for number in range(40):
        message = {"topic": "t", "message": number, "key": str(number)}
        await sidecar.publish(message if number % 3 else {**message, "id": f"id-{number}"})
    return sidecar.assembly.uplink._gateway


@pytest.mark.parametrize("number", [0, 18, 39])
async def test_a_message_is_found_by_its_id_in_whichever_partition_it_is(mesh, gateway, number):
    found = await find_id(gateway, "t", f"id-{number}".encode(), 0)
    assert mesh.log.values("t", found.partition)[found.offset] == b"%d" % number


async def test_an_id_that_is_not_there_is_not_found(gateway):
    assert await find_id(gateway, "t", b"id-1", 0) is None
    assert await find_id(gateway, "nothing", b"id-0", 0) is None


async def test_a_log_that_may_not_be_read_cannot_tell(mesh, gateway):
    mesh.gatekeeper.unreadable.add("t")
    with pytest.raises(CannotTell, match="403"):
        await find_id(gateway, "t", b"id-0", 0)


async def test_a_log_that_does_not_answer_cannot_tell(mesh, gateway):
    await mesh.gatekeeper.listening.stop()
    with pytest.raises(CannotTell):
        await find_id(gateway, "t", b"id-0", 0)


async def test_a_message_without_an_id_is_found_by_the_one_it_is_known_by(mesh, gateway):
    sidecar = mesh.sidecars[0]
    _, published = await sidecar.publish({"topic": "t", "message": "last"})
    wanted = published["id"].encode()
    found = await find_ids(gateway, "t", [wanted, b"id-3", b"id-1"], 0)
    assert set(found) == {wanted, b"id-3"}
    assert found[wanted].offset == published["offset"]
    assert found[wanted].partition == published["partition"]
