"""`issuers`: who may make tokens, and how far they are believed.

Nodes in, document values out, problems noted; what makes a setting sound is the business of
`gatekeeper.trust`. May import that, `reading` and below; must never know of principals and rules.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gatekeeper.identity.trust import IssuerSettings
from gatekeeper.policy import reading
from gatekeeper.policy.document import Issuer
from gatekeeper.policy.nodes import Node, Text
from gatekeeper.policy.problem import Problems, shown
from hosting.units import parse_duration

_KEYS: Final = {
    "issuer": True, "audience": True, "algorithms": False, "binding": False,
    "max_ttl": False, "skew": False, "ca": False, "jwks_uri": False,
}  # fmt: skip
_SCALARS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "issuer": ("issuer", str),
    "audience": ("audience", reading.short),
    "binding": ("binding", reading.one_of("required", "off")),
    "max_ttl": ("max_ttl_s", parse_duration),
    "skew": ("skew_s", parse_duration),
    "ca": ("ca", Path),
    "jwks_uri": ("jwks_uri", str),
}
"""For each key of the file: the setting's name, and how its text is read."""


def issuers(
    node: Node | None, folder: Path, problems: Problems
) -> tuple[tuple[Issuer, ...], frozenset[str]]:
    """`issuers`, and every name in it, sound or not."""
    if node is None:
        return (), frozenset()
    listed = reading.entries(node, "issuers", "names to issuers", problems)
    found = []
    for key, value in listed:
        if reading.name(key, "issuers", problems) is not None:
            issuer = _issuer(key, value, folder, problems)
            found += [] if issuer is None else [issuer]
    by_url: dict[str, Issuer] = {}
    for issuer in found:
        other = by_url.setdefault(issuer.settings.issuer, issuer)
        if other is not issuer:
            problems.add(
                issuer.line,
                f"issuers.{issuer.name}.issuer",
                f"is the issuer of {shown(other.name)} too; a token must come from one entry",
            )
    return tuple(found), frozenset(key.value for key, _ in listed)


def _issuer(key: Text, node: Node, folder: Path, problems: Problems) -> Issuer | None:
    where = f"issuers.{key.value}"
    given = reading.fields(node, where, _KEYS, problems)
    if given is None:
        return None
    settings: dict[str, Any] = {}
    for name, (setting, parse) in _SCALARS.items():
        if name in given:
            value = reading.parsed(given[name], f"{where}.{name}", parse, problems)
            settings |= {} if value is None else {setting: value}
    if "algorithms" in given:
        listed = reading.texts(given["algorithms"], f"{where}.algorithms", "names", problems)
        settings["algorithms"] = tuple(item.value for item in listed)
    if "issuer" not in settings or "audience" not in settings:
        return None
    made = IssuerSettings(name=key.value, **settings)
    for name, text in made.problems():
        problems.add(given[name].line if name in given else key.line, f"{where}.{name}", text)
    return Issuer(made if made.ca is None else replace(made, ca=folder / made.ca), key.line)
