"""Every error that the gatekeeper raises has exactly one answer."""

import inspect

from gatekeeper import errors
from gatekeeper.api import append, connections
from gatekeeper.api.problems import PROBLEMS
from gatekeeper.identity import authentication_errors

BASES = {errors.GateError, errors.Retryable}


def test_every_error_has_an_answer() -> None:
    raised = [
        kind
        for module in (errors, append, connections, authentication_errors)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Exception) and kind.__module__.startswith("gatekeeper")
    ]
    assert len(raised) > 15
    for kind in raised:
        if kind not in BASES:
            found = [problem for base, problem in PROBLEMS if issubclass(kind, base)]
            assert found, kind


def test_statuses_are_what_clients_expect() -> None:
    by_name = {kind.__name__: problem for kind, problem in PROBLEMS}
    assert by_name["AuthenticationError"].status == 401
    assert by_name["Denied"].status == 403
    assert by_name["OverQuota"].status == 429
    assert by_name["TooLarge"].status == 413
    retried = [kind for kind, _ in PROBLEMS if issubclass(kind, errors.Retryable)]
    assert {by_name[kind.__name__].status for kind in retried} == {429, 503}


def test_codes_are_stable_words() -> None:
    for _, problem in PROBLEMS:
        assert problem.code.replace("_", "").isalpha()
        assert problem.code == problem.code.lower()
