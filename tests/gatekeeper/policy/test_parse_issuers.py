from collections.abc import Callable
from pathlib import Path

import pytest

from gatekeeper.identity.trust import IssuerSettings
from gatekeeper.policy.document import Document

Parse = Callable[[str], Document]
Problems = Callable[[str], list[tuple[int, str, str]]]


def test_every_setting_is_taken_over(parse: Parse) -> None:
    document = parse(
        """\
        version: 1
        issuers:
          corp:
            issuer: https://idp.example/realm
            audience: urn:sidegate
            algorithms: [ES256, EdDSA]
            binding: off
            max_ttl: 15m
            skew: 10s
            ca: ca/idp.pem
            jwks_uri: https://keys.example/jwks
        """
    )
    (issuer,) = document.issuers
    assert issuer.line == 3
    assert issuer.settings == IssuerSettings(
        name="corp",
        issuer="https://idp.example/realm",
        audience="urn:sidegate",
        algorithms=("ES256", "EdDSA"),
        binding="off",
        max_ttl_s=900.0,
        skew_s=10.0,
        ca=Path("conf/ca/idp.pem"),
        jwks_uri="https://keys.example/jwks",
    )


def test_what_is_left_out_is_the_strict_default(parse: Parse) -> None:
    document = parse("version: 1\nissuers: {corp: {issuer: https://idp.example, audience: a}}\n")
    (issuer,) = document.issuers
    assert issuer.settings == IssuerSettings("corp", "https://idp.example", "a")
    assert issuer.settings.binding == "required"


def test_an_absolute_ca_path_stays_as_it_is(parse: Parse) -> None:
    document = parse(
        "version: 1\nissuers: {corp: {issuer: https://i.example, audience: a, ca: /etc/ca.pem}}\n"
    )
    assert document.issuers[0].settings.ca == Path("/etc/ca.pem")


@pytest.mark.parametrize(
    ("setting", "key", "problem"),
    [
        ("issuer: http://idp.example", "issuer", "https"),
        ("issuer: idp.example", "issuer", "https"),
        ("issuer: https://u:p@idp.example", "issuer", "user"),
        ("issuer: 'https://idp.example?x=1'", "issuer", "query"),
        ("issuer: 'https://idp.example#x'", "issuer", "fragment"),
        ("issuer: https://idp.example:port", "issuer", "not a URL"),
        ("jwks_uri: http://idp.example/keys", "jwks_uri", "https"),
        ("audience: ''", "audience", "is empty"),
        ("algorithms: []", "algorithms", "at least one"),
        ("algorithms: [HS256]", "algorithms", "HS256 is not allowed"),
        ("algorithms: [none]", "algorithms", "none is not allowed"),
        ("algorithms: [ES256, ES256]", "algorithms", "listed twice"),
        ("algorithms: ES256", "algorithms", "must be a list"),
        ("binding: maybe", "binding", "required or off"),
        ("binding: no", "binding", "required or off"),
        ("max_ttl: 0", "max_ttl", "more than 0"),
        ("max_ttl: 25h", "max_ttl", "at most 86400"),
        ("max_ttl: soon", "max_ttl", "must be a duration"),
        ("skew: 6m", "skew", "300"),
        ("ca: []", "ca", "must be one value"),
    ],
)
def test_each_wrong_setting_has_its_line(
    problems: Problems, setting: str, key: str, problem: str
) -> None:
    settings = {"issuer": "https://idp.example", "audience": "a"}
    name, _, value = setting.partition(": ")
    settings = {**{k: f"'{v}'" for k, v in settings.items()}, name: value}
    lines = "\n".join(f"    {name}: {value}" for name, value in settings.items())
    found = problems(f"version: 1\nissuers:\n  corp:\n{lines}\n")
    line = 4 + list(settings).index(name)
    assert [(at, where) for at, where, text in found if problem in text] == [
        (line, f"issuers.corp.{key}")
    ]


def test_an_unknown_setting_is_an_error_and_misses_nothing_else(problems: Problems) -> None:
    found = problems("version: 1\nissuers:\n  corp: {isuer: https://idp.example}\n")
    assert found == [
        (3, "issuers.corp", "audience is missing"),
        (3, "issuers.corp", "issuer is missing"),
        (3, "issuers.corp", 'unknown key "isuer"; did you mean "issuer"?'),
    ]


def test_two_entries_with_one_url_are_refused(problems: Problems) -> None:
    found = problems(
        """\
        version: 1
        issuers:
          a: {issuer: https://idp.example, audience: one}
          b: {issuer: https://idp.example, audience: two}
        """
    )
    assert found == [
        (4, "issuers.b.issuer", 'is the issuer of "a" too; a token must come from one entry')
    ]


def test_an_issuers_name_can_not_hold_a_colon(problems: Problems) -> None:
    found = problems("version: 1\nissuers:\n  'a:b': {issuer: https://i.example, audience: a}\n")
    assert [(line, where) for line, where, _ in found] == [(3, "issuers")]
