"""What `sidegate policy` prints: each report as text for people and as data for programs.

Pure: bytes in, report out; the command reads the file and prints. May import the whole ladder.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gatekeeper.policy.decide import Policy
from gatekeeper.policy.document import Action, Document
from gatekeeper.policy.environment import environment_problems
from gatekeeper.policy.explain import Explanation, explain
from gatekeeper.policy.parse import parse_policy
from gatekeeper.policy.persona import Personas, UnknownCaller
from gatekeeper.policy.problem import PolicyError
from gatekeeper.policy.self_test import run_tests
from hosting.environment import Environment

OK: Final = 0
PROBLEMS: Final = 1
COULD_NOT_RUN: Final = 2


@dataclass(frozen=True, slots=True)
class Report:
    """What to print, and the command's exit code."""

    exit_code: int
    text: str
    data: dict[str, object]


@dataclass(frozen=True, slots=True)
class Question:
    """What `explain` is asked. A claim is `issuer:name=value`, a scope `issuer:scope`."""

    caller: str
    action: Action
    topic: str
    claims: Sequence[str] = ()
    scopes: Sequence[str] = ()
    owner: str = ""


def report_check(data: bytes, path: Path, environment: Environment | None) -> Report:
    """Whether a file may take effect: its syntax, its names, its own tests.

    With `environment` None, what only development may trust is told but is no problem.
    """
    try:
        document = parse_policy(data, file=str(path), folder=path.parent)
    except PolicyError as error:
        return _refused(error)
    outcomes = list(run_tests(Policy(document)))
    problems = [outcome.problem for outcome in outcomes if not outcome.passed]
    development = list(environment_problems(document, environment or "production"))
    if environment is not None:
        problems += development
    if problems:
        return _refused(PolicyError(str(path), problems))
    counts = _counts(document)
    text = f"{path} is sound: " + ", ".join(f"{name} {count}" for name, count in counts.items())
    notes = [f"{path}:{note}" for note in development] if environment is None else []
    for note in notes:
        text += f"\nfor development only: {note}"
    return Report(
        OK,
        text,
        {
            "ok": True,
            "sha256": document.sha256.hex(),
            "counts": counts,
            "problems": [],
            "development_only": notes,
        },
    )


def report_tests(data: bytes, path: Path) -> Report:
    """Every test of the file with its answer."""
    try:
        document = parse_policy(data, file=str(path), folder=path.parent)
    except PolicyError as error:
        return _refused(error, COULD_NOT_RUN)
    outcomes = list(run_tests(Policy(document)))
    failed = sum(not outcome.passed for outcome in outcomes)
    lines = [
        f"{'ok  ' if outcome.passed else 'FAIL'} {path}:{outcome.example.line}: "
        f"{outcome.decision.text}"
        for outcome in outcomes
    ]
    lines.append(f"{len(outcomes) - failed} passed, {failed} failed")
    tests = [
        {
            "line": outcome.example.line,
            "as": outcome.example.caller,
            "do": outcome.example.do,
            "on": outcome.example.on,
            "expect": "allow" if outcome.example.allowed else "deny",
            "passed": outcome.passed,
            "rule": outcome.decision.rule,
            "reason": outcome.decision.reason,
        }
        for outcome in outcomes
    ]
    counts = {"passed": len(outcomes) - failed, "failed": failed}
    return Report(
        PROBLEMS if failed else OK, "\n".join(lines), {"ok": not failed, **counts, "tests": tests}
    )


def report_explain(data: bytes, path: Path, question: Question) -> Report:
    """One decision: the rule, why, and the nearest rule that would have allowed.

    The file's own tests are not run: one explains a policy also to see why they fail.
    """
    try:
        document = parse_policy(data, file=str(path), folder=path.parent)
        issuer, claims, scopes = _token(question)
        caller = Personas(document).make(
            question.caller, issuer=issuer, claims=claims, scopes=scopes
        )
    except PolicyError as error:
        return _refused(error, COULD_NOT_RUN)
    except UnknownCaller as error:
        return Report(COULD_NOT_RUN, str(error), {"ok": False, "error": str(error)})
    explained = explain(Policy(document), caller, question.action, question.topic, question.owner)
    decision, nearest = explained.decision, explained.nearest
    at = "" if explained.line is None else f" ({path}:{explained.line})"
    lines = [
        f"{'ALLOWED' if decision.allowed else 'DENIED'}: {decision.text}",
        f"rule: {decision.rule or 'none; what no rule allows is denied'}{at}",
        f"reason: {decision.reason}",
        *(f"why: {reason}" for reason in explained.why if reason != decision.text),
    ]
    if nearest is not None:
        lines.append(f"nearest rule: {nearest.rule} ({path}:{nearest.line}): {nearest.missing}")
        lines.append(f"to allow it: {nearest.change}")
    return Report(
        OK if decision.allowed else PROBLEMS,
        "\n".join(lines),
        explanation_data(explained) | {"policy_sha256": document.sha256.hex()},
    )


def explanation_data(explained: Explanation) -> dict[str, object]:
    """An explanation for programs."""
    decision, nearest = explained.decision, explained.nearest
    return {
        "allowed": decision.allowed,
        "principal": decision.principal,
        "action": decision.action,
        "topic": decision.topic,
        "owner": decision.owner or None,
        "rule": decision.rule,
        "line": explained.line,
        "reason": decision.reason,
        "text": decision.text,
        "max_age_s": decision.max_age_s,
        "why": list(explained.why),
        "nearest": None if nearest is None else asdict(nearest),
    }


def _refused(error: PolicyError, exit_code: int = PROBLEMS) -> Report:
    count = len(error.problems)
    text = f"{error}\n{count} problem{'' if count == 1 else 's'}"
    return Report(
        exit_code, text, {"ok": False, "problems": [asdict(item) for item in error.problems]}
    )


def _counts(document: Document) -> dict[str, int]:
    return {
        "issuers": len(document.issuers),
        "principals": len(document.principals),
        "groups": len(document.groups),
        "rules": sum(len(entry.grants) for entry in document.topics),
        "denies": len(document.denies),
        "tests": len(document.examples),
    }


def _token(question: Question) -> tuple[str | None, dict[str, object], frozenset[str]]:
    """The issuer, claims and scopes that were given; a claim that is given twice is a list."""
    issuers = set()
    claims: dict[str, list[str]] = {}
    for text in question.claims:
        issuer, _, rest = text.partition(":")
        name, equals, value = rest.partition("=")
        if not (issuer and name and equals):
            raise UnknownCaller(f"--claim {text}: write it as issuer:name=value")
        issuers.add(issuer)
        claims.setdefault(name, []).append(value)
    scopes = set()
    for text in question.scopes:
        issuer, _, scope = text.partition(":")
        if not (issuer and scope):
            raise UnknownCaller(f"--scope {text}: write it as issuer:scope")
        issuers.add(issuer)
        scopes.add(scope)
    if len(issuers) > 1:
        raise UnknownCaller(f"a token has one issuer, not {' and '.join(sorted(issuers))}")
    single = {name: values[0] if len(values) == 1 else values for name, values in claims.items()}
    return next(iter(issuers), None), dict(single), frozenset(scopes)
