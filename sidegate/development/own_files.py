"""Adds a service to a policy or a clients file that the user has changed and so owns.

What is there stays to the letter, comments included; what is missing is put in by `yaml_insert`.
A name that already means something else is refused. Pure: text in, text out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sidegate.development.services import AddedService
from sidegate.development.yaml_insert import CannotInsert, load, with_entry, with_item

ISSUER = "dev"


def client_added(text: str, service: AddedService) -> str:
    """The issuer's clients file with the service's client in it."""
    clients = _table(load(text), "clients")
    wanted = load(service.client_entry())
    if service.name not in clients:
        return _entry(text, "clients", service.name, service.client_entry(), None)
    if clients[service.name].get("spiffe") != wanted["spiffe"]:
        raise CannotInsert(
            f"clients.{service.name} is another client already; choose another name, or remove it"
        )
    return text


def policy_added(text: str, service: AddedService) -> str:
    """The policy with the service's principal, what it may do, and tests of that."""
    document = load(text)
    if ISSUER not in _table(document, "issuers"):
        raise CannotInsert(
            f"issuers has no {ISSUER}; name the development issuer so, or add {service.name} by "
            f"hand, in principals: {service.name}: {service.principal_entry()}"
        )
    text = _principal_added(text, document, service)
    for pattern, actions in service.grants().items():
        text = _granted(text, pattern, actions, service.name)
    for test in service.test_entries():
        tests = load(text).get("tests", [])
        if load(test) not in tests:
            if "tests" in document:
                text = with_item(text, ["tests"], test)
            elif tests:
                text = with_item(text, ["tests"], test)
            else:
                text = with_entry(text, [], "tests", f"[{test}]")
    return text


def _principal_added(text: str, document: Any, service: AddedService) -> str:
    if service.name in _table(document, "groups"):
        raise CannotInsert(f"groups.{service.name} has the service's name; rename one of them")
    principals = _table(document, "principals")
    if service.name not in principals:
        comment = f"{service.name}: added by `sidegate service add`."
        entry = service.principal_entry()
        return _entry(text, "principals", service.name, entry, comment)
    wanted = load(service.principal_entry())
    have = principals[service.name]
    if any(have.get(name) != value for name, value in wanted.items()):
        raise CannotInsert(
            f"principals.{service.name} is somebody else already; choose another name, or make it "
            f"{service.principal_entry()}"
        )
    return text


def _granted(text: str, pattern: str, actions: tuple[str, ...], name: str) -> str:
    """Each action in the pattern's entry, the entry being made where there is none."""
    entry = _table(load(text), "topics").get(pattern)
    if entry is None:
        grants = ", ".join(f"{action}: [{name}]" for action in actions)
        return _entry(text, "topics", json.dumps(pattern), f"{{{grants}}}", None)
    for action in actions:
        grant = entry.get(action) if isinstance(entry, Mapping) else None
        path = ["topics", pattern]
        if grant is None:
            text = with_entry(text, path, action, f"[{name}]")
            continue
        path.append(action)
        if isinstance(grant, Mapping):
            grant = grant.get("who")
            path.append("who")
        if not isinstance(grant, list) or name not in grant:
            text = with_item(text, path, name)
    return text


def _entry(text: str, section: str, key: str, value: str, comment: str | None) -> str:
    """An entry of a section at the top, which is made where it is missing."""
    if section in load(text):
        return with_entry(text, [section], key, value, comment)
    return with_entry(text, [], section, f"{{{key}: {value}}}", comment)


def _table(document: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise CannotInsert("holds no keys; delete it and it is written anew")
    found = document.get(name, {})
    if not isinstance(found, Mapping):
        raise CannotInsert(f"{name} must be a table")
    return found
