"""A plan is read from a definition, or the definition is refused; counts add up."""

import pytest

from sidecar.errors import BadRequest
from sidecar.push.push_plan import COUNTS, Tally, plan_of

PUSH = {"url": "http://127.0.0.1:1/"}
DEFINITION = {"name": "m", "owner": "app", "topic": "t", "mode": "fcfs", "settings": {"push": PUSH}}


def test_a_definition_is_a_plan():
    plan = plan_of(DEFINITION)
    assert (plan.name, plan.topic, plan.ordered) == ("m", "t", False)
    assert plan.push.url == PUSH["url"]
    assert plan.on_behalf_of == "m"


def test_a_rerun_is_on_behalf_of_another():
    rerun = {"kind": "replay", "of": "mailer", "until": {"0": 1}}
    plan = plan_of({**DEFINITION, "settings": {"push": PUSH, "rerun": rerun}})
    assert plan.on_behalf_of == "mailer"


@pytest.mark.parametrize("settings", [{}, {"push": None}, {"push": {"x": 1}}, None])
def test_what_has_no_push_is_no_plan(settings):
    with pytest.raises(BadRequest):
        plan_of({**DEFINITION, "settings": settings})


def test_counts_add_up():
    total = Tally()
    for _ in range(2):
        total.add(Tally(**dict.fromkeys(COUNTS, 3)))
    assert {getattr(total, name) for name in COUNTS} == {6}
