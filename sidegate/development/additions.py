"""A service added to the text of a policy or of the issuer's clients, generated or the user's own.

What is there stays to the letter, comments included; what is missing is put in by `yaml_insert`.
A name that already means somebody else is refused. Pure: text in, text out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sidegate.development.services import WORDS, AddedService
from sidegate.development.yaml_insert import CannotInsert, load, with_entry, with_item

Grants = Mapping[str, tuple[str, ...]]
"""Topic patterns to actions."""
ISSUER = "dev"
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


def client_added(text: str, service: AddedService) -> str:
    """The issuer's clients file with the service's client in it."""
    clients = _table(load(text), "clients")
    if service.name not in clients:
        return _with_entry(text, "clients", service.name, service.client_entry(), None)
    if not _agrees(clients[service.name], {"spiffe": service.spiffe_id}):
        raise CannotInsert(
            f"clients.{service.name} is another client already; choose another name, or remove it"
        )
    return text


def service_added(text: str, service: AddedService) -> str:
    """The policy with the service's principal, all that it may do, and tests of that."""
    text = _principal_added(text, service)
    text = grants_added(text, service.name, service.grants())
    for test in service.test_entries():
        document = load(text)
        if "tests" not in document:
            text = with_entry(text, [], "tests", f"[{test}]")
        elif load(test) not in document["tests"]:
            text = with_item(text, ["tests"], test)
    return text


def grants_added(text: str, name: str, grants: Grants) -> str:
    """The policy with these actions for the principal `name`, and nothing else."""
    for pattern, actions in grants.items():
        text = _granted(text, pattern, actions, name)
    return text


def has_principal(text: str, service: AddedService) -> bool:
    """Whether the policy knows the service; a principal of its name that is somebody else is
    refused."""
    document = load(text)
    if service.name in _table(document, "groups"):
        raise CannotInsert(f"groups.{service.name} has the service's name; rename one of them")
    principals = _table(document, "principals")
    if service.name not in principals:
        return False
    if not _agrees(principals[service.name], load(service.principal_entry())):
        raise CannotInsert(
            f"principals.{service.name} is somebody else already; choose another name, or make it "
            f"{service.principal_entry()}"
        )
    return True


def _principal_added(text: str, service: AddedService) -> str:
    if has_principal(text, service):
        return text
    if ISSUER not in _table(load(text), "issuers"):
        raise CannotInsert(
            f"issuers has no {ISSUER}, which is what the development issuer is called; add it"
        )
    comment = f"{service.name}: added by `sidegate service add`."
    return _with_entry(text, "principals", service.name, service.principal_entry(), comment)


def _granted(text: str, pattern: str, actions: tuple[str, ...], name: str) -> str:
    """Each action in the pattern's entry, which is made where there is none."""
    entry = _table(load(text), "topics").get(pattern)
    if entry is None:
        grants = ", ".join(f"{action}: [{name}]" for action in actions)
        return _with_entry(text, "topics", _key(pattern), f"{{{grants}}}", None)
    for action in actions:
        path = ["topics", pattern]
        grant = entry.get(action) if isinstance(entry, Mapping) else None
        if grant is None:
            text = with_entry(text, path, action, f"[{name}]")
            continue
        path.append(action)
        if isinstance(grant, Mapping):
            # `replay: {who: [a], max_age: 90d}`
            grant = grant.get("who")
            path.append("who")
        if not isinstance(grant, list) or name not in grant:
            text = with_item(text, path, name)
    return text


def _key(pattern: str) -> str:
    return pattern if _PLAIN.fullmatch(pattern) and pattern not in WORDS else json.dumps(pattern)


def _with_entry(text: str, section: str, key: str, value: str, comment: str | None) -> str:
    """An entry of a section at the top, which is made where it is missing."""
    if section in load(text):
        return with_entry(text, [section], key, value, comment)
    return with_entry(text, [], section, f"{{{key}: {value}}}", comment)


def _agrees(entry: Any, wanted: Mapping[str, str]) -> bool:
    return isinstance(entry, Mapping) and all(
        entry.get(name) == value for name, value in wanted.items()
    )


def _table(document: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise CannotInsert("holds no keys; delete it and it is written anew")
    found = document.get(name, {})
    if not isinstance(found, Mapping):
        raise CannotInsert(f"{name} must be a table")
    return found
