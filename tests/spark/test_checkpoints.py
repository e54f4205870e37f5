"""Checkpoints: read strictly, and every fault in words."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from log_format.checkpoint_note import log_origin
from log_format.note import SignatureType, VerifierKey
from log_format.tree import root_of
from spark.checkpoints import BadKey, Wrong, own_checkpoints, read_checkpoint, read_keys
from spark.checks.tree import Stated


@pytest.fixture
def note(log: Any, tmp_path: Path) -> Path:
    log.add("a")
    log.add("a")
    path = tmp_path / "note"
    path.write_text(str(log.checkpoint()))
    return path


def look(log: Any, path: Path, **changes: Any) -> Stated | Wrong:
    given = {
        "source": "s", "origin": log_origin(log.log_id), "keys": [log.core_vkey],
        "signed_by": log.core_vkey.name, **changes,
    }  # fmt: skip
    return read_checkpoint(path, **given)


def test_a_sound_note_states_its_root(log: Any, note: Path) -> None:
    assert look(log, note) == Stated("s", 2, root_of(log.leaves))


def test_without_a_key_the_root_is_compared_all_the_same(log: Any, note: Path) -> None:
    assert isinstance(look(log, note, keys=[], signed_by=None), Stated)


def test_planted_faults_each_have_their_kind(log: Any, note: Path, tmp_path: Path) -> None:
    forged = Ed25519PrivateKey.from_private_bytes(b"x" * 32).public_key().public_bytes_raw()
    other = VerifierKey(log.core_vkey.name, SignatureType.ED25519, forged)
    kinds = [
        look(log, note, keys=[other]),
        look(log, note, origin="sidegate/other"),
        look(log, tmp_path / "missing"),
    ]
    note.write_text("no note")
    kinds.append(look(log, note))
    assert [each.kind for each in kinds if isinstance(each, Wrong)] == [
        "checkpoint_signature", "checkpoint_foreign", "checkpoint_unreadable",
        "checkpoint_unreadable",
    ]  # fmt: skip


def test_a_changed_root_is_not_what_the_core_signed(log: Any, note: Path) -> None:
    lines = note.read_text().split("\n")
    lines[1] = "1"
    note.write_text("\n".join(lines))
    found = look(log, note)
    assert isinstance(found, Wrong)
    assert found.kind == "checkpoint_signature"


def test_the_logs_own_checkpoints_are_the_series_and_the_newest(log: Any) -> None:
    log.add("a")
    log.save_tree()
    series = log.folder / "tree" / "checkpoints"
    series.mkdir()
    (series / f"{1:020d}").write_text(str(log.checkpoint(1)))
    (series / "x.tmp").touch()
    assert [path.name for path in own_checkpoints(log.folder)] == [f"{1:020d}", "checkpoint"]


def test_a_key_is_read_from_its_line(log: Any, tmp_path: Path) -> None:
    path = tmp_path / "core.pub"
    path.write_text(f"{log.core_vkey}\n")
    assert read_keys(path) == (log.core_vkey,)
    path.write_text(f"{log.core_vkey}\n\n{log.gatekeeper_vkey}\n")
    assert [str(key) for key in read_keys(path)] == [str(log.core_vkey), log.gatekeeper_vkey]
    for text in ("nonsense", "\n"):
        path.write_text(text)
        with pytest.raises(BadKey, match=r"core\.pub"):
            read_keys(path)
