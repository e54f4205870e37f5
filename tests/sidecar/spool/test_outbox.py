"""The spool in a running sidecar: outages, restarts, a full disk; counted to the last message."""

import asyncio
import errno
import json
import os

import pytest

from hosting.lifecycle import StartError
from sidecar.config import SpoolConfig
from sidecar.spool.outbox import Outbox
from sidecar.spool.spool_files import FileLayer


async def spooled(sidecar, first, last, topic="t"):
    for number in range(first, last):
        status, answer = await sidecar.publish({"topic": topic, "message": number})
        assert (status, answer["durability"]) == (202, "spooled")


async def outage(mesh, sidecar):
    await mesh.gatekeeper.listening.stop()
    await sidecar.down()


async def drained(sidecar):
    await sidecar.until(lambda: sidecar.assembly.outbox.records == 0)


async def restart(mesh, sidecar, **changes):
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    return await mesh.sidecar(connected=False, **changes)


async def test_what_was_spooled_in_an_outage_is_sent_once_and_in_order(mesh):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "t", "message": 0})
    await outage(mesh, sidecar)
    await spooled(sidecar, 1, 60)
    status = (await sidecar.get("/status"))[1]
    assert status["uplink"] == "down"
    assert status["spool"]["messages"] == 59
    assert (await sidecar.get("/readyz"))[0] == 200
    await mesh.gatekeeper.listening.start()
    await drained(sidecar)
    assert mesh.log.values("t") == [b"%d" % number for number in range(60)]
    assert (await sidecar.publish({"topic": "t", "message": 60}))[0] == 200


async def test_spooled_batches_go_first_after_a_restart_and_keep_their_epoch(mesh):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "t", "message": 0})
    (producer, _, _) = next(iter(mesh.log.producers))
    first_epoch = mesh.log.producers[producer, "t", 0][0]
    await outage(mesh, sidecar)
    await spooled(sidecar, 1, 30)
    again = await restart(mesh, sidecar)
    await spooled(again, 30, 40)
    epochs = []
    append = mesh.log.append
    mesh.log.append = lambda frame: epochs.append(frame.envelope.producer.epoch) or append(frame)
    await mesh.gatekeeper.listening.start()
    await again.connected()
    await drained(again)
    assert mesh.log.values("t") == [b"%d" % number for number in range(40)]
    assert epochs == sorted(epochs)
    assert epochs[0] == first_epoch
    assert epochs[-1] > first_epoch


async def test_a_sidecar_that_starts_before_everything_else_spools_and_sends_later(mesh):
    await mesh.gatekeeper.listening.stop()
    await mesh.issuer.listening.stop()
    sidecar = await mesh.sidecar(connected=False)
    await spooled(sidecar, 0, 5)
    await mesh.issuer.listening.start()
    await mesh.gatekeeper.listening.start()
    await drained(sidecar)
    assert mesh.log.values("t") == [b"0", b"1", b"2", b"3", b"4"]


async def test_partitions_drain_by_themselves_when_one_is_held_back(mesh):
    sidecar = await mesh.sidecar()
    await outage(mesh, sidecar)
    await spooled(sidecar, 0, 3, "forbidden.x")
    await spooled(sidecar, 0, 3, "t")
    await mesh.gatekeeper.listening.start()
    await drained(sidecar)
    assert mesh.log.values("t") == [b"0", b"1", b"2"]
    rejects = (await sidecar.get("/rejects"))[1]["rejects"]
    assert sum(each["messages"] for each in rejects) == 3
    assert {each["code"] for each in rejects} == {"denied"}
    assert {each["decision_id"] for each in rejects} == {"d-17"}


async def test_a_refusal_in_the_middle_of_a_backlog_loses_and_doubles_nothing_behind_it(mesh):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "t", "message": 0})
    await outage(mesh, sidecar)
    await spooled(sidecar, 1, 40)
    refused = []
    append = mesh.log.append

    def refuse_one(frame):
        values = [int(value) for value in frame.columns().value]
        if 12 in values and not refused:
            refused.extend(values)
        if values == refused:
            producer = frame.envelope.producer
            return {
                "topic": producer.topic,
                "partition": producer.partition,
                "error": "denied",
                "detail": "not this one",
            }
        return append(frame)

    mesh.log.append = refuse_one
    await mesh.gatekeeper.listening.start()
    await drained(sidecar)
    kept = [number for number in range(40) if number not in refused]
    assert mesh.log.values("t") == [b"%d" % number for number in kept]
    rejects = (await sidecar.get("/rejects"))[1]["rejects"]
    assert sum(each["messages"] for each in rejects) == len(refused)


async def test_a_full_spool_refuses_and_takes_again_when_it_has_drained(mesh):
    small = SpoolConfig(bytes_max=6000, segment_bytes=2000)
    sidecar = await mesh.sidecar(spool=small)
    await outage(mesh, sidecar)
    taken = 0
    while (await sidecar.publish({"topic": "t", "message": "x" * 300}))[0] == 202:
        taken += 1
    assert taken > 3
    assert (await sidecar.get("/status"))[1]["spool"]["takes_messages"] in (True, False)
    await mesh.gatekeeper.listening.start()
    await drained(sidecar)
    assert len(mesh.log.values("t")) == taken
    await outage(mesh, sidecar)
    assert (await sidecar.publish({"topic": "t", "message": 1}))[0] == 202


@pytest.mark.parametrize("failures", [["drop"], ["lose", "drop"], ["drop", 503, "unavailable"]])
async def test_answers_that_are_lost_while_draining_double_nothing(mesh, failures):
    sidecar = await mesh.sidecar()
    await outage(mesh, sidecar)
    await spooled(sidecar, 0, 25)
    mesh.gatekeeper.failures += failures
    await mesh.gatekeeper.listening.start()
    await drained(sidecar)
    assert mesh.log.values("t") == [b"%d" % number for number in range(25)]


async def test_rejects_are_retried_and_dropped_over_http(mesh):
    sidecar = await mesh.sidecar()
    mesh.gatekeeper.failures += ["denied"]
    document = {"topic": "t", "message": {"a": 1}, "key": "k", "headers": {"h": "v"}}
    assert (await sidecar.publish(document, ack="sidecar"))[0] == 202
    await sidecar.answered("t")
    (reject,) = (await sidecar.get("/rejects"))[1]["rejects"]
    url = f"{sidecar.base}/rejects/{reject['id']}"
    async with sidecar.client.post(f"{url}/retry") as response:
        assert await response.json() == {"retried": 1}
    (message,) = (await sidecar.get("/messages/t"))[1]["messages"]
    assert (message["message"], message["key"]) == ({"a": 1}, "k")
    assert message["headers"] == {"h": "v"}
    async with sidecar.client.delete(url) as response:
        assert response.status == 404
    assert (await sidecar.get("/rejects"))[1] == {"rejects": []}


async def test_core_waiters_behind_the_spool_are_answered_with_their_offsets(mesh):
    sidecar = await mesh.sidecar()
    await outage(mesh, sidecar)
    await spooled(sidecar, 0, 20)
    mesh.gatekeeper.hang = asyncio.Event()
    await mesh.gatekeeper.listening.start()
    await sidecar.connected()
    late = asyncio.create_task(sidecar.publish({"topic": "t", "message": 20}, ack="core"))
    await sidecar.until(lambda: sidecar.assembly.publisher.waiting_messages > 0)
    mesh.gatekeeper.hang.set()
    status, answer = await late
    assert (status, answer["offset"]) == (200, 20)
    assert [json.loads(value) for value in mesh.log.values("t")] == list(range(21))


class FaultyDisk(FileLayer):
    """Refuses writes or syncs with an error number, when told to."""

    def __init__(self):
        self.write_error = None
        self.sync_errors = []

    def write(self, descriptor, data):
        if self.write_error is not None:
            raise OSError(self.write_error, os.strerror(self.write_error))
        return super().write(descriptor, data)

    def sync(self, descriptor):
        if self.sync_errors:
            error = self.sync_errors.pop(0)
            raise OSError(error, os.strerror(error))
        super().sync(descriptor)


@pytest.fixture
def disk():
    return FaultyDisk()


async def test_a_disk_that_is_full_at_the_start_is_told_and_stops_nothing_that_needs_no_disk(
    mesh, disk
):
    sidecar = await mesh.sidecar()
    await outage(mesh, sidecar)
    await spooled(sidecar, 0, 3)
    disk.write_error = errno.ENOSPC
    again = await restart(mesh, sidecar, files=disk)
    status, ready = await again.get("/readyz")
    assert status == 503
    assert "disk is full" in ready["checks"]["promises"]["spool_error"]
    spool = (await again.get("/status"))[1]["spool"]
    assert (spool["messages"], spool["takes_messages"]) == (3, False)
    assert "disk is full" in spool["error"]
    for ack, code in (("auto", "spool_full"), ("sidecar", "spool_full"), ("core", "uplink_down")):
        given, answer = await again.publish({"topic": "t", "message": ack}, ack=ack)
        assert (given, answer["code"]) == (503, code)
        if ack != "core":
            assert "disk is full" in answer["detail"]
    await mesh.gatekeeper.listening.start()
    await again.connected()
    await drained(again)
    assert (await again.get("/readyz"))[0] == 200
    assert (await again.publish({"topic": "t", "message": 3}))[0] == 200
    assert mesh.log.values("t") == [b"0", b"1", b"2", b"3"]
    disk.write_error = None
    await again.until(lambda: again.assembly.outbox.problem is None)
    await outage(mesh, again)
    await spooled(again, 4, 6)


async def test_a_new_sidecar_on_a_full_disk_starts(mesh, disk):
    disk.write_error = errno.ENOSPC
    sidecar = await mesh.sidecar(files=disk)
    assert (await sidecar.get("/readyz"))[0] == 200, "the log can be reached"
    assert (await sidecar.publish({"topic": "t", "message": 0}))[0] == 200
    await outage(mesh, sidecar)
    assert (await sidecar.get("/readyz"))[0] == 503
    assert (await sidecar.publish({"topic": "t", "message": 1}))[1]["code"] == "spool_full"


async def test_a_disk_that_fills_up_and_gets_room_again_is_found_without_a_publish(mesh, disk):
    sidecar = await mesh.sidecar(files=disk)
    await outage(mesh, sidecar)
    disk.write_error = errno.ENOSPC
    assert (await sidecar.publish({"topic": "t", "message": 0}))[1]["code"] == "spool_full"
    assert (await sidecar.get("/readyz"))[0] == 503
    disk.write_error = None
    await sidecar.until(lambda: sidecar.assembly.outbox.problem is None)
    assert (await sidecar.get("/readyz"))[0] == 200
    await spooled(sidecar, 1, 2)


@pytest.mark.parametrize(
    ("errors", "status", "code"),
    [([errno.EIO], 503, "spool_full"), ([errno.EIO, errno.EIO], 504, "in_doubt")],
)
async def test_a_message_whose_sync_failed_is_refused_and_gone_or_said_to_be_in_doubt(
    mesh, disk, errors, status, code
):
    sidecar = await mesh.sidecar(files=disk)
    await outage(mesh, sidecar)
    await spooled(sidecar, 0, 1)
    disk.sync_errors += errors
    given, answer = await sidecar.publish({"topic": "t", "message": 1})
    assert (given, answer["code"]) == (status, code)
    assert "restart the sidecar" in (await sidecar.get("/status"))[1]["spool"]["error"]
    assert (await sidecar.publish({"topic": "t", "message": 2}))[1]["code"] == "spool_full"
    again = await restart(mesh, sidecar)
    await mesh.gatekeeper.listening.start()
    await again.connected()
    await drained(again)
    # What was refused is gone for good; what is in doubt may be there.
    assert mesh.log.values("t") == [b"0"] if status == 503 else [b"0", b"1"]


async def test_a_folder_that_may_not_be_written_to_is_a_start_error_that_names_it(tmp_path, disk):
    disk.write_error = errno.EROFS
    outbox = Outbox(
        tmp_path / "spool",
        bytes_max=1 << 20,
        segment_bytes=1 << 16,
        drain_bytes_per_s=1,
        files=disk,
    )
    with pytest.raises(StartError, match=r"data: .*spool cannot be written: .*Read-only"):
        await outbox.start()
