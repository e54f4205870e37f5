"""A batch that was changed behind the core's back is found, named, and refuses the tree."""

from typing import Any

import pytest
from crc32c import crc32c

from core_log.tree.tree_audit import PAUSE_S_MIN, TreeAudit, pause_s
from log_format.envelope import decode_envelope
from log_format.layout import SEGMENT_HEAD_BYTES, segment_name


def audit(journal: Any) -> TreeAudit:
    audit = TreeAudit(journal.tree)
    while not audit.done:
        audit.step()
    return audit


def change_sender(journals: Any, leaf: int) -> None:
    """Change a batch's sender in the first segment, and make its checksum right again."""
    path = journals.path / segment_name(0)
    data = bytearray(path.read_bytes())
    position = SEGMENT_HEAD_BYTES
    for _ in range(leaf):
        position += decode_envelope(bytes(data), position).frame_len
    raw = bytearray(decode_envelope(bytes(data), position).raw)
    raw[raw.index(b"billing")] ^= 1
    raw[20:24] = crc32c(bytes(raw[24:]), crc32c(bytes(raw[:20]))).to_bytes(4, "little")
    data[position : position + len(raw)] = raw
    path.write_bytes(data)


@pytest.mark.parametrize("leaves", [0, 1, 256, 700])
def test_a_sound_log_passes_whole(journals: Any, leaves: int) -> None:
    journals.fill(leaves)
    journal = journals.open()
    found = audit(journal)
    assert found.audited == leaves
    assert journal.tree.refusal is None


def test_a_changed_batch_is_named_and_refuses_the_tree(journals: Any) -> None:
    journals.fill(700)
    change_sender(journals, 3)
    journal = journals.open()
    assert journal.tree.refusal is None, "an old batch is not read at the start"
    audit(journal)
    assert "leaf 3 (orders/0 from 3 on) is not the batch" in journal.tree.refusal


def test_a_batch_that_damage_took_is_no_finding(journals: Any) -> None:
    journals.fill(700)
    with (journals.path / segment_name(0)).open("r+b") as file:
        file.seek(SEGMENT_HEAD_BYTES + 40)
        file.write(b"\xff\xff\xff")
    journal = journals.open()
    assert audit(journal).audited == 700
    assert journal.tree.refusal is None


def test_a_tile_that_nothing_gives_any_more_refuses_the_tree(journals: Any) -> None:
    journals.fill(700)
    (journals.path / "tree/tile/0/000").write_bytes(bytes(8192))
    change_sender(journals, 3)
    journal = journals.open()
    audit(journal)
    assert "tile/0/000 does not fit" in journal.tree.refusal


def test_leaves_that_come_later_are_none_of_its_business(journals: Any) -> None:
    journal = journals.fill(10)
    begun = TreeAudit(journal.tree)
    journals.fill(300, journal=journal)
    while not begun.done:
        begun.step()
    assert begun.audited == 10


def test_it_keeps_to_its_share() -> None:
    assert pause_s(0.1) == pytest.approx(0.9)
    assert pause_s(0.0) == PAUSE_S_MIN
