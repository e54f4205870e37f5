"""What to do when a service has ended, and in which order all of them are stopped.

Decisions only: numbers in, a decision out. `runner` starts and signals the processes; this module
must never know how.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

# Long enough not to spin, short enough that a crash is hardly noticed.
FIRST_DELAY_S = 0.2
# Nobody should wait longer than this for a service whose cause of death has been mended.
LONGEST_DELAY_S = 5.0
# A service that stayed healthy this long has recovered: its next death is a new story.
HEALTHY_S = 10.0

# `sidegate <service>` exits with this when its configuration is wrong; trying again can't help.
COULD_NOT_RUN = 2
# And with this when it could not start. A lock or a port may be free a moment later, so it is tried
# again; a service that has never run and fails this often in a row waits for its user.
FAILED = 1
FIRST_TRIES_MAX = 3

# All processes must be gone 5 s after Ctrl-C. Half a second of that is left for the last ones to
# be killed and reaped.
STOP_S_MAX = 4.5
# Services stop front to back, so that each can still hand on what it accepted. One that hangs may
# use up this much before the next is told as well: three waves fit into STOP_S_MAX.
STOP_WAVE_S_MAX = 1.4


# Who passes signals on (make, a shell) may double one Ctrl-C; nobody presses it twice this fast.
DOUBLED_S_MAX = 0.3


@dataclass(frozen=True, slots=True)
class Restart:
    """Start it again after `delay_s`; `deaths` is what to pass in at its next death."""

    delay_s: float
    deaths: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Starting it again can't help; `reason` says why."""

    reason: str


def after_death(
    exit_code: int, *, deaths: int, healthy_s: float, was_ready: bool
) -> Restart | GiveUp:
    """Decide about a service that ended although nobody asked it to.

    `deaths` counts those before this one in a row, `healthy_s` is how long it was ready.
    A wrong configuration ends the whole start, and so does a service that can't start, but never
    a mesh that already ran.
    """
    if exit_code == COULD_NOT_RUN and not was_ready:
        return GiveUp("its configuration is wrong")
    if exit_code == FAILED and not was_ready and deaths + 1 >= FIRST_TRIES_MAX:
        return GiveUp(f"it could not start in {FIRST_TRIES_MAX} tries; what it said is above")
    in_a_row = 0 if healthy_s >= HEALTHY_S else deaths
    # 2 ** 5 is already past the longest delay; the bound keeps the power from growing for ever.
    delay_s = min(FIRST_DELAY_S * 2 ** min(in_a_row, 5), LONGEST_DELAY_S)
    return Restart(delay_s, in_a_row + 1)


def how_it_ended(exit_code: int) -> str:
    """A process's end in words; a negative code is the signal that killed it."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"


def is_impatient(number: int, since_first_s: float) -> bool:
    """Whether a further signal during the stop is a user who does not want to wait for it.

    SIGTERM never is: make passes its own on to a process that got one already.
    """
    return number == signal.SIGINT and since_first_s > DOUBLED_S_MAX
