"""`docs/identity.md` names every reason, and every number in it is the code's own."""

import re
from pathlib import Path
from typing import get_args

from gatekeeper.identity.authentication_errors import Reason
from gatekeeper.identity.jwks import KeyLimits
from gatekeeper.identity.jws import TOKEN_CHARS_MAX
from gatekeeper.identity.key_fetcher import DOCUMENT_BYTES_MAX, FETCH_S_MAX
from gatekeeper.identity.revocation import Kind
from gatekeeper.identity.strict_json import DEPTH_MAX
from log_format.limits import NAME_BYTES_MAX

PAGE = (Path(__file__).parents[2] / "docs" / "identity.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_table_has_every_reason_once_in_the_codes_order() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", section("Reasons"), re.MULTILINE)
    assert listed == [reason.value for reason in Reason]


def test_every_reason_is_given_somewhere() -> None:
    package = Path(__file__).parents[2] / "gatekeeper"
    source = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    for reason in Reason:
        assert f"Reason.{reason.name}" in source, reason


def test_the_numbers_are_the_codes() -> None:
    limits = KeyLimits()
    assert f"{TOKEN_CHARS_MAX:,} characters" in PAGE
    assert f"{DOCUMENT_BYTES_MAX // 1024} KiB" in PAGE
    assert f"a fetch may take {FETCH_S_MAX:.0f} s" in PAGE
    assert f"nested at most {DEPTH_MAX} deep" in PAGE
    assert f"longer than {NAME_BYTES_MAX} bytes" in PAGE
    keys = section("Keys of issuers")
    assert f"younger than {limits.refresh_s / 60:.0f} minutes" in keys
    assert limits.stale_s_max == 3600
    assert "older than an hour" in keys
    assert f"then none for {limits.cooldown_s:.0f} s" in keys
    assert f"after {limits.backoff_s_min:.0f} s, doubling to {limits.backoff_s_max:.0f} s" in keys


def test_the_kinds_of_revocation_are_the_codes() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", section("Revocation in the control log"), re.MULTILINE)
    assert listed[0] == "kind"
    assert tuple(listed[1:]) == get_args(Kind)
