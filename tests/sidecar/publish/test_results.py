"""Every code of the wire has its meaning, and an answer that breaks the contract is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.publish.results import (
    IN_THE_LOG,
    VERDICTS,
    AppendResult,
    BadAnswer,
    Verdict,
    parse_results,
    refusal,
)

OK = {
    "topic": "t",
    "partition": 0,
    "base_offset": 17,
    "count": 2,
    "leaf": 3,
    "append_us": 1,
    "durability": "committed",
    "duplicate": False,
}
CODES_OF_THE_WIRE = {
    "unknown_topic": Verdict.REFUSED,
    "unknown_partition": Verdict.REFUSED,
    "denied": Verdict.REFUSED,
    "bad_frame": Verdict.REFUSED,
    "too_large": Verdict.REFUSED,
    "over_quota": Verdict.OVER_QUOTA,
    "overloaded": Verdict.NOT_NOW,
    "disk_full": Verdict.NOT_NOW,
    "storage_failed": Verdict.DOUBT,
    "unavailable": Verdict.DOUBT,
    "sequence_gap": Verdict.GAP,
    "fenced": Verdict.FENCED,
    "sequence_conflict": Verdict.FENCED,
    "duplicate_too_old": Verdict.COMMITTED_UNPLACED,
}


def test_a_committed_batch_has_its_offset_and_durability():
    assert parse_results({"results": [OK]}, 1) == [AppendResult(Verdict.COMMITTED, 17, "committed")]


def test_a_repeat_is_committed_at_its_first_offset():
    (result,) = parse_results({"results": [{**OK, "duplicate": True}]}, 1)
    assert (result.verdict, result.base_offset) == (Verdict.COMMITTED, 17)


def test_the_table_knows_every_code_of_the_wire_and_no_other():
    assert dict(VERDICTS) == CODES_OF_THE_WIRE


@pytest.mark.parametrize("code", CODES_OF_THE_WIRE)
def test_each_code_has_its_verdict_whatever_retryable_says(code):
    for retryable in (True, False):
        (result,) = parse_results({"results": [{"error": code, "retryable": retryable}]}, 1)
        assert result.verdict is CODES_OF_THE_WIRE[code]
        assert result.code == code
        assert result.detail


@pytest.mark.parametrize(
    ("members", "verdict"),
    [({"retryable": True}, Verdict.DOUBT), ({"retryable": False}, Verdict.REFUSED)],
)
def test_a_code_of_a_newer_wire_is_judged_by_whether_it_may_be_tried_again(members, verdict):
    assert refusal("something_new", members).verdict is verdict


def test_a_refusal_carries_what_apps_are_told():
    result = refusal(
        "denied",
        {"detail": "no", "decision_id": "d-1", "reason": "rule", "retry_after_ms": 250},
    )
    assert (result.detail, result.decision_id, result.reason) == ("no", "d-1", "rule")
    assert result.retry_after_s == 0.25


def test_members_of_a_wrong_type_are_passed_over():
    result = refusal("denied", {"detail": 5, "decision_id": [], "retry_after_ms": "soon"})
    assert (result.detail, result.decision_id, result.retry_after_s) == ("denied", None, None)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"results": None},
        {"results": {}},
        {"results": []},
        {"results": [OK, OK]},
        {"results": ["ok"]},
        {"results": [{}]},
        {"results": [{**OK, "base_offset": "17"}]},
        {"results": [{**OK, "base_offset": None}]},
        {"results": [{**OK, "durability": None}]},
    ],
)
def test_an_answer_that_breaks_the_contract_is_refused_as_a_whole(document):
    with pytest.raises(BadAnswer):
        parse_results(document, 1)


def test_only_a_committed_batch_is_in_the_log():
    assert frozenset({Verdict.COMMITTED, Verdict.COMMITTED_UNPLACED}) == IN_THE_LOG


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["results", "error", "base_offset", "durability", "detail"]), inner
            )
        ),
    )
)
def test_any_document_is_results_or_a_bad_answer(document):
    try:
        results = parse_results(document, 1)
    except BadAnswer:
        return
    assert len(results) == 1
