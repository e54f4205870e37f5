"""Adds a service to a development environment, running or not: all that it needs, or nothing.

What can be refused is refused before the first file is written; what was written is the same when
it is asked for again. Files that the user changed are added to, never rewritten. The caller holds
`Running.changing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gatekeeper.policy.load import load_policy
from gatekeeper.policy.problem import PolicyError
from hosting.units import Address
from sidegate.development import additions, documents
from sidegate.development.addresses import LOOPBACK, Addresses, is_free
from sidegate.development.services import AddedService
from sidegate.development.state import State, write_private
from sidegate.development.yaml_insert import CannotInsert

# The development app has 9000, and 9001 and 9002 beside it; each service gets ten of its own, of
# which its sidecar uses the first for HTTP and the second for TCP.
FIRST_PORT = 9010
PORT_STEP = 10
LAST_PORT = 9990


class AddError(Exception):
    """The service can't be added as asked; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for; `port` None lets us choose."""

    name: str
    port: int | None = None
    publish: Sequence[str] = ()
    subscribe: Sequence[str] = ()


def add(state: State, where: Addresses, wanted: Wanted, now: datetime) -> AddedService:
    """Make or complete the service. AddError, and nothing has changed, where it can't be."""
    others = {service.name: service for service in state.services()}
    known = others.pop(wanted.name, None)
    port = _port(state, where, wanted, known, others.values())
    base = AddedService(wanted.name, port, *(known.publish, known.subscribe) if known else ())
    service = base.extended(wanted.publish, wanted.subscribe)
    services = sorted([*others.values(), service], key=lambda one: one.name)
    changed = _own_files(state, wanted, service)
    _check_policy(state, changed.get("policy.yaml") or documents.policy(where, services))
    state.make_folders()
    state.write_services(services)
    state.make_keys()
    state.make_certificates(now)
    for name, text in changed.items():
        write_private(state.root / name, text.encode())
    state.make_documents(where)
    return service


def _port(
    state: State,
    where: Addresses,
    wanted: Wanted,
    known: AddedService | None,
    others: Iterable[AddedService],
) -> int:
    config = state.config(wanted.name)
    if known is None and state.is_own(config.name):
        raise AddError(
            f"{config} is there already and is not a file of `sidegate service add`; "
            "move it away, or choose another name"
        )
    if known is not None and wanted.port in {None, known.port}:
        return known.port
    if known is not None and state.is_own(config.name):
        raise AddError(f"{config} is yours since you changed it; change its `listen` there")
    used = {address.port: listener.purpose for listener, address in where.items()}
    for service in others:
        used |= dict.fromkeys((service.port, service.tcp_port), f"the service {service.name}")
    if wanted.port is not None:
        obstacle = _obstacle(wanted.port, used)
        if obstacle is not None:
            raise AddError(f"{obstacle}; choose another, with the next port free as well")
        return wanted.port
    for port in range(FIRST_PORT, LAST_PORT + 1, PORT_STEP):
        if _obstacle(port, used) is None:
            return port
    raise AddError(f"no port from {FIRST_PORT} to {LAST_PORT} is free; choose one with --port")


def _obstacle(port: int, used: Mapping[int | None, str]) -> str | None:
    """Why a sidecar can't have this port for HTTP and the next for TCP."""
    pair = (port, port + 1)
    for one in pair:
        if one in used:
            return f"port {one} is for {used[one]}"
    for one in pair:
        if not is_free(Address(LOOPBACK, one)):
            return f"port {one} is taken by another program"
    return None


def _own_files(state: State, wanted: Wanted, service: AddedService) -> dict[str, str]:
    """The new text of each file that the user owns and that has to change."""
    if state.is_own("issuer.yaml") and not state.issuer_reads_clients():
        raise AddError(
            f"{state.config('issuer')} is yours since you changed it, and names no clients_file; "
            "add `clients_file: clients.yaml`, restart `make up`, and add the service again"
        )
    asked = AddedService(service.name, service.port).extended(wanted.publish, wanted.subscribe)
    changed = {}
    for name in ("clients.yaml", "policy.yaml"):
        file = state.root / name
        if not state.is_own(name):
            continue
        before = _text(file)
        try:
            if name == "clients.yaml":
                after = additions.client_added(before, service)
            elif additions.has_principal(before, service):
                # What its owner has taken away since stays away: only what is asked for now.
                after = additions.grants_added(before, service.name, asked.extra_grants())
            else:
                after = additions.service_added(before, service)
        except CannotInsert as error:
            raise AddError(f"{file} is yours since you changed it, and {error}") from error
        if after != before:
            changed[name] = after
    return changed


def _text(file: Path) -> str:
    try:
        # Not read_text: it would turn the line ends of another system into this one's.
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise AddError(f"{file} is not UTF-8; save it as such") from error


def _check_policy(state: State, text: str) -> None:
    """The policy as it will be must take effect, its own tests included."""
    file = state.config("policy")
    try:
        load_policy(text.encode(), file=str(file), folder=state.root, environment="development")
    except PolicyError as error:
        raise AddError(
            f"with the service in it the policy would not take effect:\n{error}\n"
            f"Nothing was changed. `sidegate policy check {file}` shows its problems as it is."
        ) from error
