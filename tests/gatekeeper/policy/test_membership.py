from collections.abc import Callable

import pytest

from gatekeeper.api.quotas import Limits
from gatekeeper.identity.identity import Identity
from gatekeeper.policy.decide import Policy
from gatekeeper.policy.document import Document
from gatekeeper.policy.membership import Callers, claim_texts
from gatekeeper.policy.pattern import Template

Rules = Callable[..., Policy]
Caller = Callable[..., Identity]
Parse = Callable[[str], Document]

ISSUERS = """\
version: 1
issuers:
  corp: {issuer: "https://idp.example", audience: a}
  other: {issuer: "https://other.example", audience: a}
"""


@pytest.mark.parametrize(
    "changes",
    [
        {"spiffe_id": "spiffe://example/other"},
        {"spiffe_id": "spiffe://example/a/b"},
        {"spiffe_id": "spiffe://Example/a"},
        {"issuer": "other"},
        {"client_id": "A"},
        {"client_id": ""},
        {"claims": {}},
        {"claims": {"team": "Pay", "level": 3}},
        {"claims": {"team": "pay"}},
        {"claims": {"team": "pay", "level": 4}},
        {"claims": {"team": "pay", "level": 3.0}},
        {"claims": {"team": {"pay": True}, "level": 3}},
        {"claims": {"team": None, "level": 3}},
    ],
)
def test_every_condition_of_a_principal_must_hold(
    parse: Parse, caller: Caller, changes: dict[str, object]
) -> None:
    document = parse(
        ISSUERS + "principals:\n"
        "  a: {spiffe: spiffe://example/a, issuer: corp, client_id: a,"
        " claims: {team: pay, level: 3}}\n"
    )
    callers = Callers(document)
    sound = {"client_id": "a", "claims": {"team": "pay", "level": 3}}
    assert callers.resolve(caller("a", **sound)).principal == "a"
    stranger = caller("a", **(sound | changes))
    member = callers.resolve(stranger)
    assert (member.principal, member.subjects) == (stranger.spiffe_id, frozenset())


def test_a_caller_is_everything_that_it_fits_and_named_by_the_most_specific(
    parse: Parse, caller: Caller
) -> None:
    callers = Callers(
        parse(
            ISSUERS + "principals:\n"
            "  z-by-client: {issuer: corp, client_id: app}\n"
            "  b-by-spiffe: {spiffe: spiffe://example/app}\n"
            "  a-by-issuer: {issuer: corp}\n"
            "  y-by-claim: {issuer: corp, claims: {team: pay}}\n"
            "  no: {issuer: other}\n"
        )
    )
    member = callers.resolve(caller("app", claims={"team": "pay"}))
    assert member.subjects == {"z-by-client", "b-by-spiffe", "a-by-issuer", "y-by-claim"}
    # Two conditions beat one; of two with two, the first name.
    assert member.principal == "y-by-claim"
    assert callers.resolve(caller("app")).principal == "z-by-client"
    assert callers.resolve(caller("app", client_id="x")).principal == "a-by-issuer"


def test_groups_are_joined_through_groups_and_by_claims_and_scopes(
    rules: Rules, caller: Caller, parse: Parse
) -> None:
    callers = Callers(
        parse(
            ISSUERS + "principals: {app: {spiffe: spiffe://example/app}}\n"
            "groups:\n"
            "  inner: [app]\n"
            "  middle: [inner]\n"
            "  outer: [middle, 'claim:corp:team=pay']\n"
            "  scoped: ['scope:other:s']\n"
            "  empty: []\n"
        )
    )
    assert callers.resolve(caller("app")).subjects == {"app", "inner", "middle", "outer"}
    paid = callers.resolve(caller("x", claims={"team": "pay"}))
    assert paid.subjects == {"claim:corp:team=pay", "outer"}
    scoped = caller("x", issuer="other", scopes=frozenset({"s", "t"}), claims={"team": "pay"})
    assert callers.resolve(scoped).subjects == {"scope:other:s", "scoped"}


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("pay", ("pay",)),
        ("", ("",)),
        (3, ("3",)),
        (-3, ("-3",)),
        (True, ("true",)),
        (False, ("false",)),
        (["a", 3, True, None, ["b"], {"c": 1}, 1.5], ("a", "3", "true")),
        (("a", "b"), ("a", "b")),
        ([], ()),
        (None, ()),
        (3.0, ()),
        ({"pay": "pay"}, ()),
        (b"pay", ()),
        (2**64, ()),
        (10**5000, ()),
        (2**63, (str(2**63),)),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "int",
)
def test_a_claim_is_compared_as_text_and_a_list_by_its_items(
    value: object, texts: tuple[str, ...]
) -> None:
    assert claim_texts(value) == texts


def test_a_list_valued_claim_counts_for_each_of_its_items(rules: Rules, caller: Caller) -> None:
    policy = rules('topics: {x: {publish: ["claim:corp:roles=writer", "claim:corp:n=7"]}}')
    assert policy.decide(caller("q", claims={"roles": ["reader", "writer"]}), "publish", "x")
    assert policy.decide(caller("q", claims={"n": 7}), "publish", "x")
    assert policy.decide(caller("q", claims={"n": ["7"]}), "publish", "x")
    assert not policy.decide(caller("q", claims={"roles": [["writer"]]}), "publish", "x")
    assert not policy.decide(caller("q", claims={"roles": "reader writer"}), "publish", "x")


def test_templates_are_resolved_from_their_own_issuer(rules: Rules, caller: Caller) -> None:
    policy = rules(
        """
        topics:
          "a.{corp:team}.{other:team}": {publish: [billing]}
          "b.{corp:https://x.example/t}": {publish: [billing]}
        deny: [{id: D1, who: [legacy], do: [publish], on: "{corp:role}"}]
        """
    )
    claims = {"team": "pay", "https://x.example/t": "t-1", "role": "No"}
    assert policy.membership_of(caller(claims=claims)).values == {
        Template("corp", "team"): "pay",
        Template("corp", "https://x.example/t"): "t-1",
    }
    assert policy.membership_of(caller(claims=claims, issuer="other")).values == {
        Template("other", "team"): "pay"
    }
    assert policy.membership_of(caller(claims=claims, issuer="")).values == {}


def test_an_issuers_name_that_meant_another_issuer_counts_for_nothing(
    rules: Rules, caller: Caller
) -> None:
    policy = rules(
        """
        topics:
          "a.{corp:team}": {publish: ["claim:corp:team=pay", "scope:corp:s"]}
        """
    )
    token = {"claims": {"team": "pay"}, "scopes": frozenset({"s"})}
    before = caller("billing", issuer_url="https://old.example", **token)
    assert policy.decide(caller("billing", **token), "publish", "a.pay")
    member = policy.membership_of(before)
    assert (member.principal, member.subjects, member.values) == (
        "spiffe://example/billing",
        frozenset(),
        {},
    )
    assert member.identity is before
    assert not policy.decide(before, "publish", "a.pay")


QUOTAS = """
groups: {more: [billing, "claim:corp:team=pay"], most: ["claim:corp:team=pay"]}
quotas:
  default: {messages_per_s: 200, bytes_per_s: 2MiB, streams: 20}
  more: {messages_per_s: 500, streams: 30}
  most: {messages_per_s: 400, bytes_per_s: unlimited}
  billing: {messages_per_s: 100}
"""


def test_quotas_merge_limit_by_limit_default_then_groups_then_the_principal(
    parse: Parse, head: str, caller: Caller
) -> None:
    policy = Policy(parse(head.replace("groups: {auditors: [reader]}\n", "") + QUOTAS))
    assert policy.limits_of(caller("reader")) == Limits(200.0, 2097152.0, 20)
    assert policy.limits_of(caller("stranger")) == Limits(200.0, 2097152.0, 20)
    # A group gives more, and of several groups the most generous counts.
    assert policy.limits_of(caller("x", claims={"team": "pay"})) == Limits(500.0, None, 30)
    # The principal's own entry is the last word, where it has one.
    assert policy.limits_of(caller("billing")) == Limits(100.0, 2097152.0, 30)


def test_without_quotas_nothing_is_limited(rules: Rules, caller: Caller) -> None:
    assert rules().limits_of(caller()) == Limits(None, None, None)
