"""An operation is a name, a method and a path, with the answers that it may give."""

from sidecar.api.operation import BAD, DENIED, DOWN, Operation, Result


def test_what_is_not_said_is_json_without_a_query():
    operation = Operation("x", "GET", "/x", "tag", "text", {200: Result("ok"), **BAD})
    assert operation.body is None
    assert operation.body_media == ("application/json",)
    assert not operation.query.__struct_fields__


def test_the_common_answers_are_refusals():
    assert {*BAD, *DENIED, *DOWN} == {400, 403, 503}
