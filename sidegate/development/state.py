"""The state folder `.sidegate/`: what it holds, and how it is made without losing what is there.

Making it twice changes nothing but certificates that are about to run out and generated files
whose addresses moved. Folders are 0700 and private files 0600 from the moment they exist.

    core.yaml issuer.yaml clients.yaml gatekeeper.yaml sidecar.yaml policy.yaml
                                              generated until changed
    services.json, and NAME.yaml for each     added services: the registry, their sidecars
    ca/ certs/ keys/                          kept, renewed when due
    core.pub gatekeeper.pub                   what proofs are checked with
    data/core data/gatekeeper data/sidecar    the services' own, and data/NAME for added ones
    run/                                      locks, logs, what runs now
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import ECKey

from log_format.note import VerifierKey
from sidegate.development import addresses, ca, documents, generated
from sidegate.development.ca import Leaf
from sidegate.development.services import AddedService, read_registry, write_registry
from sidegate.public_keys import core_key, gatekeeper_key

FOLDERS = ("ca", "certs", "keys", "data", "data/core", "data/gatekeeper", "data/sidecar", "run")
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
REGISTRY = "services.json"
CORE_KEY = "keys/core-signing.pem"


class StateError(Exception):
    """A file in the state folder that can't be read as what it should be."""


@dataclass(frozen=True, slots=True)
class State:
    """The state folder at `root`. One process makes it at a time: whoever holds the run lock."""

    root: Path

    def config(self, service: str) -> Path:
        return self.root / f"{service}.yaml"

    @property
    def ca(self) -> Path:
        return self.root / "ca" / "ca.pem"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def data(self) -> Path:
        return self.root / "data"

    def services(self) -> tuple[AddedService, ...]:
        """The services that were added, sorted by name."""
        file = self.root / REGISTRY
        try:
            return read_registry(file.read_text())
        except FileNotFoundError:
            return ()
        except ValueError as error:
            raise StateError(
                f"{file}: {error}. Delete it and add the services again; `sidegate service add` "
                "keeps what they have."
            ) from error

    def write_services(self, services: Iterable[AddedService]) -> None:
        write_private(self.root / REGISTRY, write_registry(services).encode())

    def make_folders(self) -> None:
        for folder in (self.root, *(self.root / name for name in FOLDERS)):
            folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)

    def try_writing(self) -> None:
        """OSError where nothing can be written, also where every folder is there already."""
        file = self.run / ".try"
        write_private(file, b"Sidegate can write here.")
        file.unlink()

    def make_keys(self) -> None:
        """The signing keys of core, gatekeeper and issuer; the ones that exist stay."""
        self._make_once(CORE_KEY, _ed25519_key)
        self._make_once("keys/gatekeeper-signing.pem", _ed25519_key)
        self._make_once("keys/issuer.json", _issuer_keys)

    def write_public_keys(self) -> bool:
        """Write the public keys that check the log, once the core has made one.

        A key that was renewed is written behind the old ones, which what it signed is checked by.
        False where `core.pub` was another log's before: its data was taken away.
        """
        gate, core = _mapping(self.config("gatekeeper")), _mapping(self.config("core"))
        self._write_public(
            "gatekeeper.pub",
            gatekeeper_key(self.root / str(gate["signing_key"]), str(gate["id"])),
        )
        private = self.root / str(core.get("signing_key", CORE_KEY))
        return self._write_public("core.pub", core_key(private, self.root / str(core["data"])))

    def _write_public(self, name: str, key: VerifierKey) -> bool:
        file = self.root / name
        before = file.read_text().splitlines() if file.exists() else []
        kept = [line for line in before if line.startswith(f"{key.name}+")]
        lines = kept if str(key) in kept else [*kept, str(key)]
        if lines != before:
            write_private(file, "".join(f"{line}\n" for line in lines).encode())
        return kept == before

    def make_certificates(
        self, now: datetime, leaves: Iterable[Leaf] = documents.LEAVES
    ) -> list[str]:
        """Issue what is missing or about to run out; the names of what was issued."""
        issued = []
        root_key = self._make_once("ca/ca.key", ca.new_key)
        root_file = self.root / "ca/ca.pem"
        if not root_file.exists() or not ca.root_is_usable(root_file.read_bytes(), now):
            write_private(root_file, ca.issue_root(root_key, now))
            issued.append("ca")
        root = root_file.read_bytes()
        for leaf in (*leaves, *(service.leaf for service in self.services())):
            key = self._make_once(f"certs/{leaf.name}.key", ca.new_key)
            file = self.root / "certs" / f"{leaf.name}.pem"
            if not file.exists() or not ca.leaf_is_usable(root, leaf, key, file.read_bytes(), now):
                # The key stays, so that no reader ever meets a certificate and a key that differ.
                write_private(file, ca.issue_leaf(root, root_key, leaf, key, now))
                issued.append(leaf.name)
        return issued

    def make_documents(self, where: addresses.Addresses) -> None:
        """Write the configurations and the policy, except those that the user changed."""
        services = self.services()
        for service in services:
            (self.data / service.name).mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        for name, text in documents.texts(where, services).items():
            file = self.root / name
            if not self.is_own(name):
                content = generated.marked(text)
                if not file.exists() or file.read_text() != content:
                    write_private(file, content.encode())

    def is_own(self, name: str) -> bool:
        """Whether the user has changed this file, which is then never written again."""
        file = self.root / name
        return file.exists() and not generated.is_untouched(file.read_text())

    def issuer_reads_clients(self) -> bool:
        """Whether the issuer's configuration leads it to the file of clients that we write."""
        named = _mapping(self.config("issuer")).get("clients_file")
        return isinstance(named, str) and self.root / named == self.root / "clients.yaml"

    def listen_of(self, service: AddedService) -> str:
        """Where its sidecar listens: as registered, or as the user's own file says."""
        if self.is_own(service.config):
            listen = _mapping(self.root / service.config).get("listen")
            if isinstance(listen, str):
                return listen
        return f"{addresses.LOOPBACK}:{service.port}"

    def own_addresses(self) -> dict[addresses.Listener, str | None]:
        """The addresses in configurations that the user changed; None is an optional one that
        such a configuration leaves out."""
        found: dict[addresses.Listener, str | None] = {}
        for listener in addresses.LISTENERS:
            file = self.config(listener.service)
            if not self.is_own(file.name):
                continue
            document = _mapping(file)
            named = document.get(listener.key)
            if isinstance(named, str) or (named is None and listener.optional):
                found[listener] = named
        return found

    def stale_files(self, where: addresses.Addresses) -> Iterator[str]:
        """A sentence for each file of the user's own that names an issuer that is not there."""
        expected = documents.url(where, addresses.ISSUER)
        policy = self.root / "policy.yaml"
        issuers = _mapping(policy).get("issuers")
        named = issuers.get("dev") if isinstance(issuers, Mapping) else None
        if isinstance(named, Mapping) and named.get("issuer") != expected:
            yield (
                f"{policy} names the issuer {named.get('issuer')}, but the development issuer is "
                f"{expected}: every token would be refused. Change issuers.dev.issuer there."
            )
        for service in self.services():
            if self.is_own(service.config):
                yield from self._stale_sidecar(self.root / service.config, where)

    def _stale_sidecar(self, file: Path, where: addresses.Addresses) -> Iterator[str]:
        document = _mapping(file)
        oauth = document.get("oauth")
        issuer = oauth.get("issuer") if isinstance(oauth, Mapping) else None
        for key, found, listener in (
            ("oauth.issuer", issuer, addresses.ISSUER),
            ("gatekeepers", document.get("gatekeepers"), addresses.GATEKEEPER),
        ):
            expected = documents.url(where, listener)
            if found not in (expected, [expected]):
                yield f"{file} names {found} as {key}, but here it is {expected}. Change it there."

    def _make_once(self, name: str, make: Callable[[], bytes]) -> bytes:
        file = self.root / name
        if not file.exists():
            write_private(file, make())
        return file.read_bytes()


def write_private(file: Path, content: bytes) -> None:
    """Replace `file` in one step; it is readable by its owner alone from its first moment."""
    fresh = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        fresh.replace(file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _mapping(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StateError(f"{file} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise StateError(f"{file} holds no keys; delete it and it is written anew")
    return document


def _ed25519_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _issuer_keys() -> bytes:
    key = ECKey.generate_key("P-256", {"use": "sig", "alg": "ES256"}, private=True, auto_kid=True)
    return json.dumps({"keys": [key.as_dict(private=True)]}, indent=2).encode()
