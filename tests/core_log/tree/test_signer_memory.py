"""A signer signs extensions of what it signed last, and never forgets that."""

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_log.tree.signer_memory import MEMORY_NAME, MemoryUnusable, SignerMemory, decide
from log_format.checkpoint_note import TreeHead
from log_format.tree import consistency_proof, nodes_of, root_of

LEAVES = [sha256(number.to_bytes(8)).digest() for number in range(300)]
OTHER = [sha256(b"x").digest(), *LEAVES[1:]]


def head(size: int, leaves: list[bytes] = LEAVES, origin: str = "sidegate/00") -> TreeHead:
    return TreeHead(origin, size, root_of(leaves[:size]))


def proof(old: int, new: int, leaves: list[bytes] = LEAVES) -> list[bytes]:
    return consistency_proof(old, new, nodes_of(leaves))


@given(st.integers(0, 300), st.integers(0, 300))
def test_exactly_extensions_are_signed(old: int, new: int) -> None:
    old, new = min(old, new), max(old, new)
    assert decide(head(old), head(new), old, proof(old, new)) is None
    if old:
        refusal = decide(head(old), head(new, OTHER), old, proof(old, new, OTHER))
        assert refusal is not None
        assert refusal.code == "not_an_extension"
    if new > old:
        refusal = decide(head(new), head(old), new, [])
        assert refusal is not None
        assert refusal.code == "not_an_extension"


def test_one_that_has_signed_nothing_takes_the_first_log_and_no_other_after_it() -> None:
    assert decide(None, head(9), 0, []) is None
    refusal = decide(head(9), head(12, origin="sidegate/01"), 9, proof(9, 12))
    assert refusal is not None
    assert refusal.code == "other_log"


def test_a_proof_from_elsewhere_or_a_checkpoint_with_more_in_it_is_refused() -> None:
    refusal = decide(head(9), head(12), 8, proof(8, 12))
    assert refusal is not None
    assert (refusal.code, "from the 9 leaves" in refusal.why) == ("other_start", True)
    more = TreeHead("sidegate/00", 12, root_of(LEAVES[:12]), ("extension",))
    refusal = decide(head(9), more, 9, proof(9, 12))
    assert refusal is not None
    assert refusal.code == "bad_checkpoint"


def test_what_was_signed_is_remembered_across_restarts(tmp_path: Path) -> None:
    memory = SignerMemory(tmp_path / "signer")
    memory.load()
    assert memory.last is None
    memory.keep(head(5))
    memory.keep(head(9))
    again = SignerMemory(tmp_path / "signer")
    again.load()
    assert again.last == head(9)
    assert (tmp_path / "signer" / MEMORY_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xff\xff", b"sidegate/00\n9\n"])
def test_a_damaged_memory_stops_the_signer(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MEMORY_NAME).write_bytes(content)
    with pytest.raises(MemoryUnusable, match=r"is damaged.*that a witness has"):
        SignerMemory(tmp_path).load()
