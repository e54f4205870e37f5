"""The files of a tree, read as they are, and missed where they are gone."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from log_format.errors import FormatError
from sidegate.checker.tree_files import TreeFiles, decode_state, read_claim, signature_findings


def files_of(log: Any) -> TreeFiles:
    return TreeFiles(log.folder, log.root)


def test_checkpoints_state_and_tiles_are_read(signed_log: Any) -> None:
    signed_log.write()
    files = files_of(signed_log)
    assert files.exists
    assert files.findings == []
    assert [claim.head.size for claim in files.claims] == [12, 4, 8]
    assert files.state is not None
    assert (files.state.size, files.state.signed) == (12, 12)
    assert [files.leaf(number) for number in range(12)] == signed_log.leaves()
    assert files.leaf(12) is None
    assert files.tile(1, 0) is None


def test_full_tiles_and_upper_levels_are_read(tmp_path: Path, signed_log: Any) -> None:
    log = type(signed_log)(tmp_path / "large", 600, 200)
    log.write()
    files = files_of(log)
    leaves = log.leaves()
    assert [files.leaf(number) for number in (0, 255, 256, 599)] == [
        leaves[number] for number in (0, 255, 256, 599)
    ]
    assert len(files.tile(1, 0) or b"") == 64


def test_a_log_without_a_tree_has_none(signed_log: Any) -> None:
    signed_log.write(tree=False)
    assert not files_of(signed_log).exists


def test_a_checkpoint_that_can_not_be_read_is_named(signed_log: Any) -> None:
    signed_log.write()
    tree = signed_log.folder / "tree"
    (tree / "checkpoint").write_text("nothing")
    (tree / "checkpoints" / f"{8:020d}").rename(tree / "checkpoints" / f"{9:020d}")
    findings = files_of(signed_log).findings
    assert [(each.kind, Path(each.file).name) for each in findings] == [
        ("checkpoint", "checkpoint"),
        ("checkpoint", f"{9:020d}"),
    ]


@pytest.mark.parametrize("content", [None, b"", b"sidegate tree 1\n", b"\xff" * 100])
def test_a_state_that_can_not_be_read_is_named(signed_log: Any, content: bytes | None) -> None:
    signed_log.write()
    state = signed_log.folder / "tree" / "state"
    state.unlink()
    if content is not None:
        state.write_bytes(content)
    files = files_of(signed_log)
    assert files.state is None
    assert [each.kind for each in files.findings] == ["tree_state"]


def test_no_changed_byte_of_a_state_is_believed(signed_log: Any) -> None:
    signed_log.write()
    whole = (signed_log.folder / "tree" / "state").read_bytes()
    assert decode_state(whole) is not None
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        assert decode_state(bytes(changed)) is None, position


def test_a_core_that_signs_between_two_looks_leaves_no_checkpoint_missing(signed_log: Any) -> None:
    signed_log.write()
    tree = signed_log.folder / "tree"
    state, newest = (tree / "state").read_bytes(), (tree / "checkpoint").read_bytes()
    (tree / "checkpoint").write_text(str(signed_log.note(10)))
    (tree / "state").unlink()
    os.mkfifo(tree / "state")

    def sign() -> None:
        with (tree / "state").open("wb") as looked_at:
            (tree / "checkpoint").write_bytes(newest)
            looked_at.write(state)

    core = threading.Thread(target=sign, daemon=True)
    core.start()
    files = files_of(signed_log)
    core.join()
    assert files.state is not None
    assert files.state.signed == max(claim.head.size for claim in files.claims) == 12


def test_signatures_are_judged_by_the_keys_that_are_known(signed_log: Any) -> None:
    signed_log.write()
    claim = read_claim(signed_log.folder / "tree" / "checkpoints" / f"{8:020d}", "eight")
    keys = signed_log.keys
    assert list(signature_findings(claim, keys.cores, keys.gatekeepers)) == []
    assert claim.cosigners(keys.gatekeepers) == keys.gatekeepers
    stranger = type(signed_log)(signed_log.root / "other").keys
    (unsigned, *_) = signature_findings(claim, stranger.cores, stranger.gatekeepers)
    assert unsigned.kind == "checkpoint_signature"
    assert claim.cosigners(stranger.gatekeepers) == ()
    renewed = (*stranger.cores, *keys.cores)
    assert list(signature_findings(claim, renewed, keys.gatekeepers)) == []


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("no note")
    with pytest.raises(FormatError):
        read_claim(tmp_path / "note", "note")
