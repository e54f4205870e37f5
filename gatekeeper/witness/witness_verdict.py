"""What a witness makes of a checkpoint: one table from what it sees to what it concludes.

Two rules stand above the table: a witness signs nothing but what it has seen to extend all that it
signed before, and what it can't explain is an alarm. Pure: knows no file, no clock and no HTTP.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from log_format.checkpoint_note import TreeHead
from log_format.tree import verify_consistency


class Memory(Enum):
    """What the witness remembers."""

    NONE = "it has never seen a checkpoint"
    LOST = "it has seen one and no longer knows which"
    KEPT = "it knows the last one"


class Size(Enum):
    """The shown tree's size beside the remembered one's."""

    SMALLER = "smaller"
    EQUAL = "equal"
    LARGER = "larger"


class Proof(Enum):
    """The proof that the shown tree extends the remembered one."""

    MISSING = "not asked for yet"
    HOLDS = "holds"
    FAILS = "fails"


class Verdict(Enum):
    """What follows. `code` names it in logs, metrics and file names."""

    FIRST = "first"
    SAME = "same"
    EXTENDS = "extends"
    PROVE = "prove"
    MEMORY_LOST = "memory_lost"
    WRONG_ORIGIN = "wrong_origin"
    WRONG_KEY = "wrong_key"
    SHRUNK = "shrunk"
    SPLIT = "split"
    FORKED = "forked"

    @property
    def code(self) -> str:
        """Its stable name."""
        return self.value

    @property
    def text(self) -> str:
        """What it means, for whoever reads the alarm."""
        return _TEXTS[self]


COSIGNED: Final = frozenset({Verdict.FIRST, Verdict.SAME, Verdict.EXTENDS})
"""What the witness puts its name under."""
CONTRADICTIONS: Final = frozenset(
    {Verdict.WRONG_ORIGIN, Verdict.WRONG_KEY, Verdict.SHRUNK, Verdict.SPLIT, Verdict.FORKED}
)
"""What no honest core shows: with `on_fork: refuse` nothing is appended to such a log."""
LATCHED: Final = frozenset({Verdict.SPLIT, Verdict.FORKED})
"""The core has signed two histories. Whatever it shows afterwards, that stays true, so only an
operator ends these alarms; the others end when the core shows the old tree again."""

_TEXTS: Final = {
    Verdict.FIRST: "the first checkpoint that this witness sees",
    Verdict.SAME: "the checkpoint that this witness saw last",
    Verdict.EXTENDS: "the tree extends the one that this witness saw last",
    Verdict.PROVE: "the tree is larger; a consistency proof is needed",
    Verdict.MEMORY_LOST: "this witness has cosigned before and has lost what it remembered",
    Verdict.WRONG_ORIGIN: "the core shows another log than the one that is known here",
    Verdict.WRONG_KEY: "the checkpoint is not signed by the core's known key",
    Verdict.SHRUNK: "the core's tree is smaller than it was: leaves were removed",
    Verdict.SPLIT: "the core has signed two different trees of the same size",
    Verdict.FORKED: "the core's tree does not extend the one that it signed before",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the table looks at. Facts about a memory mean nothing where none is kept."""

    memory: Memory
    known_origin: bool
    signed: bool
    size: Size
    same_root: bool
    proof: Proof


_ANY: Final = None
TABLE: Final = (
    # memory, known_origin, signed, size, same_root, proof → verdict; the first row that fits
    (_ANY, False, _ANY, _ANY, _ANY, _ANY, Verdict.WRONG_ORIGIN),
    (_ANY, True, False, _ANY, _ANY, _ANY, Verdict.WRONG_KEY),
    (Memory.LOST, True, True, _ANY, _ANY, _ANY, Verdict.MEMORY_LOST),
    (Memory.NONE, True, True, _ANY, _ANY, _ANY, Verdict.FIRST),
    (Memory.KEPT, True, True, Size.SMALLER, _ANY, _ANY, Verdict.SHRUNK),
    (Memory.KEPT, True, True, Size.EQUAL, True, _ANY, Verdict.SAME),
    (Memory.KEPT, True, True, Size.EQUAL, False, _ANY, Verdict.SPLIT),
    (Memory.KEPT, True, True, Size.LARGER, _ANY, Proof.MISSING, Verdict.PROVE),
    (Memory.KEPT, True, True, Size.LARGER, _ANY, Proof.HOLDS, Verdict.EXTENDS),
    (Memory.KEPT, True, True, Size.LARGER, _ANY, Proof.FAILS, Verdict.FORKED),
)


def conclude(facts: Facts) -> Verdict:
    """The verdict of the first row that fits; the rows together fit everything."""
    seen = (
        facts.memory,
        facts.known_origin,
        facts.signed,
        facts.size,
        facts.same_root,
        facts.proof,
    )
    for *wanted, verdict in TABLE:
        if all(want is _ANY or want == have for want, have in zip(wanted, seen, strict=True)):
            return verdict
    raise AssertionError(f"no row of the table fits {facts}")


def facts_of(
    shown: TreeHead,
    *,
    origin: str,
    signed: bool,
    remembered: TreeHead | None,
    lost: bool,
    hashes: Sequence[bytes] | None,
) -> Facts:
    """Compare a checkpoint with the memory and with the consistency proof, if there is one yet."""
    if remembered is None:
        memory = Memory.LOST if lost else Memory.NONE
        return Facts(memory, shown.origin == origin, signed, Size.EQUAL, True, Proof.MISSING)
    size = Size.EQUAL
    if shown.size != remembered.size:
        size = Size.SMALLER if shown.size < remembered.size else Size.LARGER
    proof = Proof.MISSING
    if hashes is not None:
        holds = verify_consistency(remembered.size, shown.size, remembered.root, shown.root, hashes)
        proof = Proof.HOLDS if holds else Proof.FAILS
    return Facts(
        Memory.KEPT,
        shown.origin == origin == remembered.origin,
        signed,
        size,
        shown.root == remembered.root,
        proof,
    )
