"""The issuers in force: replaced as a whole, with keys kept where nothing about them changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from gatekeeper.identity.issuers import Issuers
from gatekeeper.identity.jwks import KeyLimits
from gatekeeper.identity.trust import IssuerSettings

CORP = IssuerSettings("corp", "https://idp.example", "urn:sidegate")
PARTNER = IssuerSettings("partner", "https://partner.example", "urn:sidegate")


@pytest.fixture
def issuers() -> Issuers:
    issuers = Issuers(clock=lambda: 0.0, limits=KeyLimits())
    issuers.replace([CORP, PARTNER])
    return issuers


def test_an_issuer_is_found_by_its_exact_url(issuers: Issuers) -> None:
    found = issuers.get("https://idp.example")
    assert found is not None
    assert found.settings is CORP
    assert issuers.get("https://idp.example/") is None
    assert issuers.get("corp") is None
    assert len(issuers) == len(list(issuers)) == 2


def test_an_unchanged_issuer_stays_the_same_object(issuers: Issuers) -> None:
    before = issuers.get(CORP.issuer)
    issuers.replace([replace(CORP)])
    assert issuers.get(CORP.issuer) is before
    assert issuers.get(PARTNER.issuer) is None


@pytest.mark.parametrize(
    "change", [{"audience": "urn:other"}, {"max_ttl_s": 60}, {"binding": "off"}, {"skew_s": 0}]
)
def test_changed_rules_keep_the_keys_but_not_the_object(issuers: Issuers, change) -> None:
    before = issuers.get(CORP.issuer)
    assert before is not None
    issuers.replace([replace(CORP, **change)])
    after = issuers.get(CORP.issuer)
    assert after is not None
    assert after is not before
    assert after.keys is before.keys


@pytest.mark.parametrize(
    "change",
    [{"ca": Path("ca.pem")}, {"jwks_uri": "https://x.example/k"}, {"algorithms": ("RS256",)}],
)
def test_keys_from_elsewhere_are_fetched_anew(issuers: Issuers, change) -> None:
    before = issuers.get(CORP.issuer)
    issuers.replace([replace(CORP, **change)])
    after = issuers.get(CORP.issuer)
    assert before is not None
    assert after is not None
    assert after.keys is not before.keys


def test_wrong_settings_change_nothing(issuers: Issuers) -> None:
    before = issuers.get(CORP.issuer)
    with pytest.raises(ValueError, match=r"issuers\.corp\.algorithms.*issuers\.partner\.audience"):
        issuers.replace([replace(CORP, algorithms=("HS256",)), replace(PARTNER, audience="")])
    with pytest.raises(ValueError, match="same `issuer`"):
        issuers.replace([CORP, replace(PARTNER, issuer=CORP.issuer)])
    assert issuers.get(CORP.issuer) is before


async def test_a_replaced_issuers_fetch_is_ended(issuer_server, issuers: Issuers) -> None:
    import asyncio

    gone = asyncio.Event()

    async def silent(request: object) -> None:
        await gone.wait()

    issuer_server.routes["/.well-known/openid-configuration"] = silent
    issuers.replace([replace(CORP, issuer=issuer_server.url, ca=issuer_server.ca)])
    await issuers.refresh_ahead()
    keys = next(iter(issuers)).keys
    assert keys.state.in_flight
    issuers.replace([])
    await issuers.refresh_ahead()
    assert not keys.state.in_flight
    gone.set()
    await issuers.close()
