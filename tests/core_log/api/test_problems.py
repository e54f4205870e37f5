"""Every error that can reach a route has its place in the one list."""

import inspect

import pytest

from core_log.api import admission, intake, query, request_body, stream_route
from core_log.api.problems import TABLE
from core_log.control import control, revocations, topic_log, topics
from core_log.log import log_errors

MODULES = (
    admission,
    control,
    intake,
    log_errors,
    query,
    request_body,
    revocations,
    stream_route,
    topic_log,
    topics,
)
NEVER_ON_A_ROUTE = {
    "ControlDamaged",  # keeps the core from starting
    "ReaderGone",  # nobody is left to be answered
    "TopicError",  # only its kinds are raised
}
ERRORS = [
    kind
    for module in MODULES
    for name, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, Exception)
    and kind.__module__ == module.__name__
    and name not in NEVER_ON_A_ROUTE
]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_a_route_has_a_problem(kind: type[Exception]) -> None:
    assert TABLE.find(kind.__new__(kind)) is not None, "it would be a bare 500"


def test_codes_are_words_and_statuses_are_errors() -> None:
    for _, problem in TABLE:
        assert 400 <= problem.status <= 599
        assert problem.code.replace("_", "").isalpha()
        assert problem.title[0].isupper()
