"""Every error that an app may meet has its status, and no two share a code."""

import pytest

from hosting.problems import Problem
from sidecar import errors
from sidecar.api.problems import PROBLEMS

ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, errors.SidecarError)
    and kind is not errors.SidecarError
]
STATUSES = {
    "BadMessage": 400,
    "BadQuery": 400,
    "ForeignCaller": 403,
    "Denied": 403,
    "UnknownTopic": 404,
    "UnknownMessage": 404,
    "TooLarge": 413,
    "OverQuota": 429,
    "GatekeeperRefused": 502,
    "Rejected": 502,
    "UplinkDown": 503,
    "RingFull": 503,
    "SpoolIsFull": 503,
    "InDoubt": 504,
}


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_has_an_answer_of_its_own(kind):
    assert isinstance(dict(PROBLEMS).get(kind), Problem)


@pytest.mark.parametrize("name", STATUSES)
def test_each_error_has_its_status(name):
    assert dict(PROBLEMS)[getattr(errors, name)].status == STATUSES[name]


def test_codes_are_unique():
    codes = [problem.code for _, problem in PROBLEMS]
    assert len(codes) == len(set(codes))


def test_an_error_that_nobody_planned_has_no_answer():
    assert PROBLEMS.find(ValueError("x")) is None
    assert PROBLEMS.find(errors.SidecarError("x")) is None
