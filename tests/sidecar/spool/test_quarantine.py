"""What is no frame is set aside with its reason, and costs nobody else anything."""

import json
from base64 import b64decode

from sidecar.spool.quarantine import Quarantine
from sidecar.spool.spool_files import SpoolFiles, Stored


def test_a_batch_is_kept_with_its_reason_for_its_owner_only(tmp_path):
    folder = tmp_path / "quarantine"
    quarantine = Quarantine(folder)
    assert quarantine.batches == 0
    path = quarantine.keep(Stored(7, 3, 99, b"bytes"), "no such version")
    row = json.loads(path.read_bytes())
    assert (row["reason"], row["order"], row["written_us"]) == ("no such version", 3, 99)
    assert b64decode(row["frame_base64"]) == b"bytes"
    assert path.stat().st_mode & 0o077 == 0
    assert Quarantine(folder).batches == quarantine.batches == 1


def test_the_same_record_again_is_one_file(tmp_path):
    quarantine = Quarantine(tmp_path)
    for _ in range(2):
        quarantine.keep(Stored(7, 3, 99, b"bytes"), "why")
    quarantine.keep(Stored(8, 4, 99, b"bytes"), "why")
    assert quarantine.batches == len(list(tmp_path.iterdir())) == 2


async def test_an_unreadable_batch_in_the_spool_stops_neither_the_start_nor_the_others(mesh):
    sidecar = await mesh.sidecar()
    await mesh.gatekeeper.listening.stop()
    await sidecar.down()
    for number in range(3):
        assert (await sidecar.publish({"topic": "t", "message": number}))[0] == 202
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    spool = SpoolFiles(mesh.folder / "data" / "spool", segment_bytes=1 << 20)
    spool.open(lambda _: None)
    spool.append([(1_000, b"SGB9 of another version " * 9)], 1)
    spool.close()
    for _ in range(2):
        again = await mesh.sidecar(connected=False)
        status = (await again.get("/status"))[1]["spool"]
        assert (status["messages"], status["quarantined_batches"]) == (3, 1)
        mesh.sidecars.remove(again)
        await again.stop()
    await mesh.gatekeeper.listening.start()
    again = await mesh.sidecar()
    await again.until(lambda: again.assembly.outbox.records == 0)
    assert mesh.log.values("t") == [b"0", b"1", b"2"]
    (file,) = (mesh.folder / "data" / "spool" / "quarantine").iterdir()
    assert "no frame begins" in json.loads(file.read_bytes())["reason"]
