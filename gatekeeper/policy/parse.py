"""A policy file's bytes as a document, or every problem in it with its line.

Pure: reads no file and looks nothing up. May import the `parse_*` modules and below.
"""

import hashlib
from pathlib import Path
from typing import Final

from gatekeeper.policy import parse_callers, parse_checks, parse_issuers, parse_rules, reading
from gatekeeper.policy.document import SUBSCRIBE_LOOKBACK_S, Document
from gatekeeper.policy.nodes import Node, Table, read_nodes
from gatekeeper.policy.problem import PolicyError, Problems
from hosting.units import parse_duration

POLICY_BYTES_MAX: Final = 8 * 1024 * 1024
"""About 80,000 rules. A bigger file would take longer to read than a reload may."""
VERSION: Final = "1"

_KEYS: Final = {
    "version": True,
    "subscribe_lookback": False,
    "issuers": False,
    "principals": False,
    "groups": False,
    "topics": False,
    "deny": False,
    "quotas": False,
    "tests": False,
}


def parse_policy(data: bytes, *, file: str, folder: Path) -> Document:
    """The document, or PolicyError with all problems.

    `file` is the name that problems are shown with; paths in the policy are taken from `folder`.
    """
    problems = Problems()
    root = _root(data, problems)
    document = None if root is None else _document(root, data, folder, problems)
    if document is None or problems.found:
        raise PolicyError(file, problems.found)
    return document


def _root(data: bytes, problems: Problems) -> Node | None:
    if len(data) > POLICY_BYTES_MAX:
        problems.add(1, "", f"the file has {len(data)} bytes; at most {POLICY_BYTES_MAX}")
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.add(data.count(b"\n", 0, error.start) + 1, "", "is not UTF-8; save it as such")
        return None
    return read_nodes(text, problems)


def _document(root: Node, data: bytes, folder: Path, problems: Problems) -> Document | None:
    if not isinstance(root, Table):
        problems.add(root.line, "", "must be a table that begins with version: 1")
        return None
    given = reading.fields(root, "", _KEYS, problems) or {}
    if "version" in given:
        reading.parsed(given["version"], "version", reading.one_of(VERSION), problems)
    lookback_s: float | None = SUBSCRIBE_LOOKBACK_S
    if "subscribe_lookback" in given:
        lookback_s = reading.parsed(
            given["subscribe_lookback"], "subscribe_lookback", parse_duration, problems
        )
    issuers, issuer_names = parse_issuers.issuers(given.get("issuers"), folder, problems)
    principals, principal_names = parse_callers.principals(
        given.get("principals"), issuer_names, problems
    )
    groups, names = parse_callers.groups(
        given.get("groups"), issuer_names, principal_names, problems
    )
    topics = parse_rules.topics(given.get("topics"), names, problems)
    denies = parse_rules.denies(given.get("deny"), names, problems)
    default_quota, quotas = parse_checks.quotas(given.get("quotas"), names, problems)
    examples = parse_checks.examples(given.get("tests"), names, principals, problems)
    if lookback_s is None:
        return None
    return Document(
        sha256=hashlib.sha256(data).digest(),
        subscribe_lookback_s=lookback_s,
        issuers=issuers,
        principals=principals,
        groups=groups,
        topics=topics,
        denies=denies,
        default_quota=default_quota,
        quotas=quotas,
        examples=examples,
    )
