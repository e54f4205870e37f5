"""The walk over one segment without an index: sound frames into a new one, damage to the table.

Imports the scan, the table and the rungs below. Reads only; who called cuts, keeps and removes.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass, field

from core_log.log.index import Index, Key
from core_log.log.recovery import Action, Place, decide
from core_log.log.results import Cut, LostRange, Quarantined
from core_log.log.scan import Bad, BadBody, Sound, Window, scan
from core_log.log.state import State, stamp_of
from log_format.envelope import Envelope
from log_format.layout import SEGMENT_HEAD_BYTES


@dataclass(slots=True)
class Findings:
    """What opening a log has come upon so far."""

    scanned_bytes: int = 0
    scanned_frames: int = 0
    rebuilt_indexes: int = 0
    cuts: list[Cut] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    lost: list[LostRange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def lose(self, lost: LostRange | None) -> None:
        """Note a loss, if it is one."""
        if lost is not None:
            self.lost.append(lost)

    def quarantine_head(self, segment: str, leaf: int) -> None:
        """Note a damaged head; what stands behind it can be read all the same."""
        why = "the segment's head is damaged"
        self.quarantined.append(Quarantined(segment, 0, SEGMENT_HEAD_BYTES, leaf, why))


@dataclass(frozen=True, slots=True)
class Ground:
    """What is known of a segment before the walk.

    All leaves below `proven` were synced. The walk begins at `begin`, behind what `index` holds.
    Leaves from `following` on, if that is given, belong to the next segment.
    """

    name: str
    index: Index
    begin: int
    proven: int
    following: int | None
    head_sound: bool


@dataclass(frozen=True, slots=True)
class Walked:
    """The outcome: where the good bytes end, which leaf is due there, and what has to be done.

    `action` is NOTHING, CUT (at `end`), DISCARD, or QUARANTINE_AND_LEAVE. `whole_frames` counts
    sound frames among what is to be cut.
    """

    end: int
    next_leaf: int
    action: Action
    whole_frames: int = 0


class Walk:
    """One walk. `greatest` is each partition's greatest append time so far, and is kept up."""

    def __init__(
        self,
        ground: Ground,
        window: Window,
        greatest: MutableMapping[Key, int],
        findings: Findings,
        state: State | None,
    ) -> None:
        self._ground = ground
        self._window = window
        self._greatest = greatest
        self._findings = findings
        self._state = state
        self._index = ground.index
        self._expected = ground.index.end_leaf
        self._proven = ground.proven
        self._evidence_at: int | None = None
        self._whole_frames = 0

    def run(self) -> Walked:
        """Walk to the end, or to where the segment has to be cut."""
        ground = self._ground
        actions: set[Action] = set()
        if not ground.head_sound:
            action = self._decide(Place.HEAD, SEGMENT_HEAD_BYTES, SEGMENT_HEAD_BYTES)
            if action is Action.DISCARD:
                return Walked(0, self._expected, action)
            self._findings.quarantine_head(ground.name, self._expected)
            actions.add(action)
        end = min(ground.begin, self._window.end)
        for found in scan(self._window, ground.begin, self._expected):
            action = self._damage(found) if isinstance(found, Bad) else self._take(found)
            if action is Action.CUT:
                return Walked(found.position, self._expected, action, self._frames_from(found))
            actions.add(action)
            end = found.end
        due = self._proven if ground.following is None else ground.following
        action = decide(Place.END, leaf=self._expected, proven=due, followed=False)
        if action is Action.QUARANTINE_AND_LEAVE:
            self._findings.lose(LostRange(self._expected, due))
            self._index.missing = due - self._expected
            self._expected = due
        elif Action.QUARANTINE_AND_LEAVE in actions:
            action = Action.QUARANTINE_AND_LEAVE
        return Walked(end, self._expected, action)

    def _damage(self, bad: Bad) -> Action:
        action = self._decide(Place.FRAMES, bad.position, bad.end)
        if action is not Action.CUT:
            self._quarantine(bad.position, bad.length, bad.why)
        return action

    def _take(self, found: Sound | BadBody) -> Action:
        """A frame with a sound envelope: into the index, unless it has to go."""
        stamp = stamp_of(found.envelope)
        if stamp.leaf > self._expected:
            if self._decide(Place.FRAMES, found.position, found.position) is Action.CUT:
                return Action.CUT
            self._miss(stamp.leaf, found.position)
        action = Action.NOTHING
        if isinstance(found, BadBody):
            action = self._decide(Place.FRAMES, found.position, found.end)
            if action is Action.CUT:
                return action
            self._quarantine_body(found)
        self._add(found.position, found.envelope)
        return action

    def _add(self, position: int, envelope: Envelope) -> None:
        stamp, producer = stamp_of(envelope), envelope.producer
        key = (producer.topic, producer.partition)
        greatest = self._greatest[key] = max(stamp.append_us, self._greatest.get(key, 0))
        self._index.add(
            key,
            stamp.base_offset,
            producer.count,
            position,
            envelope.frame_len,
            stamp.append_us,
            greatest,
            envelope.has_body,
        )
        self._expected = stamp.leaf + 1
        self._findings.scanned_frames += 1
        if self._state is not None and stamp.leaf >= self._state.leaf:
            self._findings.lose(self._state.apply(envelope))

    def _miss(self, leaf: int, position: int) -> None:
        """The leaves up to `leaf` are not here."""
        self._findings.lose(LostRange(self._expected, leaf))
        self._index.add_lost(leaf - self._expected, position)
        self._expected = leaf

    def _quarantine_body(self, found: BadBody) -> None:
        stamp, producer = stamp_of(found.envelope), found.envelope.producer
        self._quarantine(found.position, found.envelope.frame_len, found.why)
        self._findings.lose(
            LostRange(
                stamp.leaf,
                stamp.leaf + 1,
                producer.topic,
                producer.partition,
                stamp.base_offset,
                stamp.base_offset + producer.count,
            )
        )

    def _quarantine(self, position: int, length: int, why: str) -> None:
        self._findings.quarantined.append(
            Quarantined(self._ground.name, position, length, self._expected, why)
        )

    def _decide(self, place: Place, position: int, behind: int) -> Action:
        """Ask the table about damage that ends at `behind`."""
        if self._evidence_at is None:
            self._read_evidence(position)
        followed = behind < self._window.end
        if place is Place.HEAD:
            followed = self._whole_frames > 0
        return decide(place, leaf=self._expected, proven=self._proven, followed=followed)

    def _read_evidence(self, position: int) -> None:
        """Look behind the first damage for a proof that it had been synced.

        One pass serves every later damage too: a frame's durable position is not above its own
        leaf, so a frame before some damage can prove nothing about it.
        """
        self._evidence_at = position
        for found in scan(self._window, position, self._expected):
            if isinstance(found, Sound):
                self._whole_frames += 1
                self._proven = max(self._proven, stamp_of(found.envelope).durable_leaf)

    def _frames_from(self, found: Sound | BadBody | Bad) -> int:
        """Sound frames at and behind a cut."""
        if found.position == self._evidence_at:
            return self._whole_frames
        items = scan(self._window, found.position, self._expected)
        return sum(isinstance(item, Sound) for item in items)
