"""From a file's bytes to a policy that may take effect, or to all that is wrong with it.

Pure. The one place that knows which checks come before a policy is in force.
"""

from pathlib import Path

from gatekeeper.policy.decide import Policy
from gatekeeper.policy.environment import environment_problems
from gatekeeper.policy.parse import parse_policy
from gatekeeper.policy.problem import PolicyError
from gatekeeper.policy.self_test import run_tests
from hosting.environment import Environment


def load_policy(data: bytes, *, file: str, folder: Path, environment: Environment | None) -> Policy:
    """The policy, compiled and with its tests passed, or PolicyError with every problem.

    With `environment` None, what only development may trust is not looked at.
    """
    document = parse_policy(data, file=file, folder=folder)
    policy = Policy(document)
    problems = [outcome.problem for outcome in run_tests(policy) if not outcome.passed]
    if environment is not None:
        problems += environment_problems(document, environment)
    if problems:
        raise PolicyError(file, problems)
    policy.forget_callers()
    return policy
