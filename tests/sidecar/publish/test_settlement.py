"""The decision over requests under way, for every combination of answers to three batches."""

from itertools import product

import pytest

from sidecar.publish.batch import Ack, Entry, make_batch
from sidecar.publish.flight import Flight
from sidecar.publish.message import Message
from sidecar.publish.producer import ProducerEpoch
from sidecar.publish.results import IN_THE_LOG, AppendResult, Verdict
from sidecar.publish.settlement import LATE_S_MAX, settle_flights

ALL = list(product(Verdict, repeat=3))
TOGETHER, APART = (3,), (1, 1, 1)
"""All in one request, or each in its own."""


def three(doubtful=False, ack=Ack.CORE):
    batches = []
    for number in range(3):
        entry = Entry(Message("t", b"x", 1), ack, lambda _: None)
        batches.append(make_batch("t", 0, ProducerEpoch(7, 0), number, [entry], number))
        batches[-1].doubtful = doubtful
    return batches


def decide(verdicts, doubtful=False, ack=Ack.CORE, lost_at=-1e9, shares=TOGETHER):
    batches = three(doubtful, ack)
    answers = [AppendResult(verdict) for verdict in verdicts]
    flights, position = [], 0
    for count in shares:
        flights.append(Flight(batches[position : position + count], alone=not flights))
        flights[-1].answers = answers[position : position + count]
        position += count
    return batches, settle_flights(flights, 0.0, lost_at)


@pytest.mark.parametrize("shares", [TOGETHER, APART, (1, 2), (2, 1)])
@pytest.mark.parametrize("doubtful", [False, True])
@pytest.mark.parametrize("ack", [Ack.CORE, Ack.NONE])
def test_every_batch_is_settled_or_stays_once_and_in_order(shares, doubtful, ack):
    for verdicts in ALL:
        batches, decision = decide(verdicts, doubtful, ack, shares=shares)
        settled = [each.batch for each in decision.settled]
        assert sorted(settled + decision.rest, key=batches.index) == batches
        assert decision.rest == sorted(decision.rest, key=batches.index)


@pytest.mark.parametrize("shares", [TOGETHER, APART])
def test_what_is_in_the_log_or_refused_for_good_never_stays(shares):
    for verdicts in ALL:
        batches, decision = decide(verdicts, shares=shares)
        for batch, verdict in zip(batches, verdicts, strict=True):
            if verdict is Verdict.REFUSED or verdict in IN_THE_LOG:
                assert batch not in decision.rest
            if verdict in (Verdict.DOUBT, Verdict.UNSENT, Verdict.GAP, Verdict.FENCED):
                assert batch in decision.rest


@pytest.mark.parametrize("shares", [TOGETHER, APART])
def test_a_batch_that_may_be_in_the_log_gets_no_new_number_while_a_try_may_still_arrive(shares):
    """Whatever the log says, short of a fence: doubtful ones keep their numbers for a while."""
    for verdicts in ALL:
        if Verdict.FENCED in verdicts:
            continue
        _, decision = decide(verdicts, doubtful=True, lost_at=-LATE_S_MAX / 2, shares=shares)
        assert decision.mend_from is None, verdicts


def test_a_gap_in_a_request_that_was_not_alone_never_costs_an_epoch():
    """It may have overtaken the one before it; a sure refusal or a fence is another matter."""
    for verdicts in ALL:
        _, decision = decide(verdicts, doubtful=False, ack=Ack.NONE, shares=APART)
        reasons = {Verdict.FENCED, Verdict.REFUSED} & set(verdicts)
        if verdicts[0] is not Verdict.GAP and not reasons:
            assert decision.mend_from is None, verdicts


def test_what_surely_never_left_is_in_no_doubt_and_a_gap_behind_it_is_its_consequence():
    batches, decision = decide([Verdict.UNSENT, Verdict.GAP, Verdict.GAP], shares=APART)
    assert decision.rest == batches
    assert decision.mend_from is None
    assert not any(batch.doubtful for batch in batches)


def test_after_that_while_a_gap_is_believed_and_what_follows_is_mended():
    batches, decision = decide([Verdict.GAP] * 3, doubtful=True)
    assert (decision.mend_from, decision.rest) == (0, batches)


def test_a_gap_behind_a_doubt_is_its_consequence_and_no_reason_to_mend():
    _, decision = decide([Verdict.DOUBT, Verdict.GAP, Verdict.GAP])
    assert decision.mend_from is None


def test_behind_a_sure_refusal_nothing_is_in_doubt_and_all_is_mended():
    batches, decision = decide([Verdict.REFUSED, Verdict.DOUBT, Verdict.GAP])
    assert decision.mend_from == 0
    assert decision.rest == batches[1:]
    assert not any(batch.doubtful for batch in decision.rest)


def test_over_quota_is_handed_back_only_to_apps_that_all_still_wait():
    _, decision = decide([Verdict.OVER_QUOTA] * 3)
    assert len(decision.settled) == 3
    for changed in ({"doubtful": True}, {"ack": Ack.NONE}, {"ack": Ack.SIDECAR}):
        _, decision = decide([Verdict.OVER_QUOTA] * 3, **changed)
        assert not decision.settled
        assert decision.retry_at is not None
