"""Which of a policy file's own tests fail, for whoever proposes a change of the file.

The gatekeeper decides; this only asks it. Must not read the file that a policy came from.
"""

from pathlib import Path

from gatekeeper.policy.decide import Policy
from gatekeeper.policy.parse import parse_policy
from gatekeeper.policy.problem import PolicyError
from gatekeeper.policy.self_test import run_tests


def failing_tests(text: str) -> tuple[int, ...]:
    """The places under `tests` whose answer is not the expected one.

    None of a text that is no sound policy: it can't be asked anything, and `sidegate policy check`
    tells what is wrong with it.
    """
    try:
        document = parse_policy(text.encode(), file="policy.yaml", folder=Path())
    except PolicyError:
        return ()
    return tuple(each.place for each in run_tests(Policy(document)) if not each.passed)
