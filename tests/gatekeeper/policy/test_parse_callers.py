from collections.abc import Callable

import pytest

from gatekeeper.policy.document import Claim, Document, Group, Named, Principal, Scope

Parse = Callable[[str], Document]
Problems = Callable[[str], list[tuple[int, str, str]]]

ISSUERS = "version: 1\nissuers: {corp: {issuer: https://idp.example, audience: a}}\n"


def test_conditions_are_read_as_written(parse: Parse) -> None:
    document = parse(
        ISSUERS
        + "principals:\n"
        + "  a: {spiffe: spiffe://example/a}\n"
        + "  b: {issuer: corp, client_id: 007, claims: {level: 3, country: no, admin: true}}\n"
        + "  c: {issuer: corp}\n"
    )
    assert document.principals == (
        Principal("a", "spiffe://example/a", None, None, (), 4),
        Principal(
            "b",
            None,
            "corp",
            "007",
            (("admin", "true"), ("country", "no"), ("level", "3")),
            5,
        ),
        Principal("c", None, "corp", None, (), 6),
    )
    assert [principal.conditions for principal in document.principals] == [1, 5, 1]


@pytest.mark.parametrize(
    ("conditions", "where", "problem"),
    [
        ("{}", "", "has no condition and would fit every caller"),
        ("[]", "", "must be a table"),
        ("{client_id: x}", "", "needs issuer"),
        ("{claims: {a: b}}", "", "needs issuer"),
        ("{spiffe: spiffe://example/a, claims: {a: b}}", "", "needs issuer"),
        ("{spife: spiffe://example/a}", "", 'did you mean "spiffe"?'),
        ("{issuer: crop}", ".issuer", 'unknown issuer "crop"; did you mean "corp"?'),
        ("{issuer: zzz}", ".issuer", 'unknown issuer "zzz"; add it to issuers'),
        ("{issuer: https://idp.example}", ".issuer", "unknown issuer"),
        ("{spiffe: https://example/a}", ".spiffe", "does not begin with spiffe://"),
        ("{spiffe: spiffe://example}", ".spiffe", "has no path"),
        ("{spiffe: spiffe://example/a/../b}", ".spiffe", "relative segment"),
        ("{spiffe: spiffe://example//a}", ".spiffe", "empty or relative"),
        ("{spiffe: spiffe://Example/a}", ".spiffe", "trust domain"),
        ("{spiffe: 'spiffe://example/*'}", ".spiffe", "letters, digits"),
        ("{spiffe: 'spiffe://example/%61'}", ".spiffe", "letters, digits"),
        (f"{{spiffe: spiffe://example/{'a' * 512}}}", ".spiffe", "at most 512"),
        (f"{{issuer: corp, client_id: {'a' * 300}}}", ".client_id", "at most 256"),
        ("{issuer: corp, client_id: }", ".client_id", "is empty"),
        ("{issuer: corp, claims: [a]}", ".claims", "must be a table of claims to values"),
        ("{issuer: corp, claims: {a: [b]}}", ".claims.a", "must be one value"),
        ("{issuer: corp, claims: {a: }}", ".claims.a", "is empty"),
        ("{issuer: corp, claims: {a b: c}}", ".claims", "not a claim's name"),
    ],
)
def test_each_wrong_condition_has_its_line(
    problems: Problems, conditions: str, where: str, problem: str
) -> None:
    found = problems(f"{ISSUERS}principals:\n  app: {conditions}\n")
    matching = [(at, place) for at, place, text in found if problem in text]
    assert matching == [(4, f"principals.app{where}")]


def test_a_group_holds_anything_that_a_who_list_may(parse: Parse) -> None:
    document = parse(
        ISSUERS
        + "principals: {a: {spiffe: spiffe://example/a}}\n"
        + "groups:\n"
        + "  inner: [a, 'claim:corp:https://x.example/role=admin=yes', 'scope:corp:log:read']\n"
        + "  outer: [inner]\n"
        + "  nobody: []\n"
    )
    assert document.groups == (
        Group(
            "inner",
            (
                Named("a"),
                Claim("corp", "https://x.example/role", "admin=yes"),
                Scope("corp", "log:read"),
            ),
            5,
        ),
        Group("outer", (Named("inner"),), 6),
        Group("nobody", (), 7),
    )
    assert [str(member) for member in document.groups[0].members] == [
        "a",
        "claim:corp:https://x.example/role=admin=yes",
        "scope:corp:log:read",
    ]


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("aap", 'unknown name "aap"; did you mean "app"?'),
        ("zzz", 'unknown name "zzz"; add it to principals or groups'),
        ("App", 'unknown name "App"'),
        ("*", 'unknown name "*"'),
        ("spiffe://example/a", "neither a name"),
        ("claim:corp:team", "neither a name"),
        ("claim:corp:team=", "neither a name"),
        ("claim:corp:=pay", "neither a name"),
        ("claim:corp", "neither a name"),
        ("claim:team=pay", "neither a name"),
        ("scope:corp:", "neither a name"),
        ("scope:corp", "neither a name"),
        ("scope:corp:a b", "neither a name"),
        ("group:g", "neither a name"),
        ("Claim:corp:a=b", "neither a name"),
        ("claim:crop:team=pay", 'unknown issuer "crop"; did you mean "corp"?'),
        ("scope:crop:x", 'unknown issuer "crop"; did you mean "corp"?'),
        ("claim::team=pay", 'unknown issuer ""'),
    ],
)
def test_each_wrong_subject_has_its_line(problems: Problems, subject: str, problem: str) -> None:
    found = problems(
        f"{ISSUERS}principals: {{app: {{spiffe: spiffe://example/a}}}}\n"
        f"groups:\n  g:\n  - app\n  - '{subject}'\n"
    )
    assert [(line, where) for line, where, _ in found] == [(7, "groups.g")]
    assert problem in found[0][2]


def test_a_group_can_not_have_a_principals_name_or_a_kept_one(problems: Problems) -> None:
    found = problems(
        f"{ISSUERS}principals:\n  app: {{issuer: corp}}\n  default: {{issuer: corp}}\n"
        "groups:\n  app: []\n"
    )
    assert [(line, where) for line, where, _ in found] == [
        (5, "principals"),
        (7, "groups"),
    ]
    assert "kept for quotas" in found[0][2]
    assert "is a principal too" in found[1][2]
    assert "kept for quotas" in problems("version: 1\ngroups: {default: []}\n")[0][2]


def test_every_circle_of_groups_is_told(problems: Problems) -> None:
    found = problems(
        "version: 1\ngroups:\n  a: [b]\n  b: [a]\n  c: [c]\n  d: [a]\n  e: [f]\n  f: []\n"
    )
    assert len(found) == 2
    assert all("is a member of itself" in text for _, _, text in found)
    assert {where for _, where, _ in found} <= {"groups.a", "groups.b", "groups.c"}
    assert any(text.endswith("c → c") for _, _, text in found)
