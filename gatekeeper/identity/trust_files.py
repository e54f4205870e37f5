"""The trust domains' files, taken up while the service runs: CA bundles and revocation lists.

A changed file that cannot be used leaves the last good one in force and is reported. Does its
reading in the caller's thread; the values that it hands out never change, so they may be used in
another. Knows nothing of connections or tokens.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gatekeeper.identity.certificates import BadBundle, TrustBundle, load_bundle
from gatekeeper.identity.crl import (
    CRL_BYTES_MAX,
    BadCrl,
    Crl,
    DomainCrls,
    check_signatures,
    load_crls,
)
from gatekeeper.identity.trust import TrustDomain

log = logging.getLogger("sidegate.gatekeeper")

BUNDLE_BYTES_MAX: Final = 1024 * 1024
"""One bundle: 64 certificates of at most 16 KiB."""

Stamp = tuple[int, int, int]


class TrustFilesError(Exception):
    """Files that the service cannot begin without. The message names each and its problem."""


@dataclass(frozen=True, slots=True)
class TrustState:
    """What the files say. `generation` counts the changes of bundles: a certificate that was
    verified under another one has to be verified again."""

    generation: int
    bundles: Mapping[str, TrustBundle]
    crls: Mapping[str, DomainCrls]
    """Of the domains that require them, and of no other."""
    problems: Mapping[str, str]
    """By file: why its present contents are not in use."""


class TrustFiles:
    """Reads the files of `domains`; ValueError when a setting is wrong. Not for use from two
    threads at the same time."""

    def __init__(self, domains: Iterable[TrustDomain]) -> None:
        self._domains = tuple(domains)
        problems = [
            f"trust_domains.{domain.name}.{key}: {text}"
            for domain in self._domains
            for key, text in domain.problems()
        ]
        if len({domain.name for domain in self._domains}) != len(self._domains):
            problems.append("trust_domains: two entries have the same name")
        if problems:
            raise ValueError("; ".join(problems))
        self._stamps: dict[Path, Stamp | None] = {}
        empty: Mapping[str, str] = MappingProxyType({})
        self.state = TrustState(0, MappingProxyType({}), MappingProxyType({}), empty)

    def load(self) -> TrustState:
        """Read everything for the first time. Raises TrustFilesError for a bundle that is not
        sound; a CRL may come later, and until then its domain's certificates are refused."""
        state = self.reload_changed()
        missing = [
            f"{domain.bundle}: {state.problems.get(str(domain.bundle), 'not read')}"
            for domain in self._domains
            if domain.name not in state.bundles
        ]
        if missing:
            raise TrustFilesError(
                f"trust_domains: {'; '.join(missing)}. Put the domain's CA certificates there"
            )
        return state

    def reload_changed(self) -> TrustState:
        """Read the files that changed since the last look, and return what holds now."""
        state = self.state
        for domain in self._domains:
            if self._changed(domain.bundle):
                state = self._read_bundle(state, domain)
            if domain.crl == "required" and domain.crl_file is not None:
                if self._changed(domain.crl_file):
                    state = self._read_crls(state, domain, domain.crl_file)
                elif domain.name not in state.crls:
                    state = _with_crls(state, domain.name, DomainCrls())
        self.state = state
        return state

    def _read_bundle(self, state: TrustState, domain: TrustDomain) -> TrustState:
        try:
            bundle = load_bundle(domain.name, _read(domain.bundle, BUNDLE_BYTES_MAX))
        except (OSError, BadBundle) as error:
            return _with_problem(state, domain.bundle, str(error))
        log.info("trust bundle taken up", extra={"fields": {"trust_domain": domain.name}})
        bundles = MappingProxyType({**state.bundles, domain.name: bundle})
        state = _without_problem(state, domain.bundle)
        return replace(state, generation=state.generation + 1, bundles=bundles)

    def _read_crls(self, state: TrustState, domain: TrustDomain, path: Path) -> TrustState:
        known = state.crls.get(domain.name, DomainCrls())
        try:
            crls = load_crls(_read(path, CRL_BYTES_MAX))
            _refuse_older(known.crls, crls)
            if domain.name in state.bundles:
                check_signatures(crls, state.bundles[domain.name].certificates)
        except (OSError, BadCrl) as error:
            return _with_crls(_with_problem(state, path, str(error)), domain.name, known)
        log.info("revocation lists taken up", extra={"fields": {"trust_domain": domain.name}})
        return _with_crls(_without_problem(state, path), domain.name, DomainCrls(crls))

    def _changed(self, path: Path) -> bool:
        stamp = _stamp(path)
        if path in self._stamps and self._stamps[path] == stamp:
            return False
        self._stamps[path] = stamp
        return True


def _refuse_older(known: Iterable[Crl], brought: Iterable[Crl]) -> None:
    """A list that was put back would bring revoked certificates back to life."""
    newest: dict[bytes, float] = {}
    for crl in brought:
        newest[crl.issuer_name] = max(newest.get(crl.issuer_name, 0.0), crl.this_update)
    for crl in known:
        if newest.get(crl.issuer_name, crl.this_update) < crl.this_update:
            raise BadCrl("it is older than the list in use, which stays in force")


def _read(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(f"it has more than {bytes_max} bytes")
    return data


def _stamp(path: Path) -> Stamp | None:
    """What changes when a file is rewritten, replaced, or reached through another link."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _with_problem(state: TrustState, path: Path, problem: str) -> TrustState:
    fields = {"file": str(path), "problem": problem}
    log.warning("a trust domain's file is not used", extra={"fields": fields})
    return replace(state, problems=MappingProxyType({**state.problems, str(path): problem}))


def _without_problem(state: TrustState, path: Path) -> TrustState:
    problems = {file: text for file, text in state.problems.items() if file != str(path)}
    return replace(state, problems=MappingProxyType(problems))


def _with_crls(state: TrustState, domain: str, crls: DomainCrls) -> TrustState:
    return replace(state, crls=MappingProxyType({**state.crls, domain: crls}))
