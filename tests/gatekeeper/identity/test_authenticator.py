"""Certificate and token together, against a real issuer over TLS: who gets in, and until when."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gatekeeper.identity import authenticator as module
from gatekeeper.identity.authentication_errors import (
    AuthenticationError,
    IssuerUnavailable,
    Reason,
    TokenMissing,
)
from gatekeeper.identity.authenticator import Authenticator
from gatekeeper.identity.jwks import KeyLimits
from gatekeeper.identity.revocation import Revocation, RevocationSet
from gatekeeper.identity.trust import IssuerSettings, TrustDomain
from hosting.lifecycle import StartError

LIMITS = KeyLimits()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    """An authenticator between one issuer and one trust domain, and a caller of both."""

    def __init__(self, server, mint, root, folder: Path, now: float) -> None:
        self.server, self.mint, self.root, self.now = server, mint, root, now
        self.clock = Clock()
        self.bundle, self.crl_file = folder / "ca.pem", folder / "crl.pem"
        self.bundle.write_bytes(root.pem)
        self.crl_file.write_bytes(root.crl())
        self.leaf = root.leaf()
        self.corp = IssuerSettings("corp", server.url, "urn:sidegate", ca=server.ca)
        domain = TrustDomain("example", self.bundle, "required", self.crl_file)
        self.authenticator = Authenticator(
            issuers=[self.corp], domains=[domain], monotonic=self.clock, key_limits=LIMITS
        )

    def token(self, **changed: Any) -> str:
        return self.mint.token(self.leaf.thumbprint, self.now, **changed)

    async def refusal(self, chain: Any, token: str | None, now: float | None = None) -> Reason:
        with pytest.raises(AuthenticationError) as caught:
            await self.authenticator.authenticate(chain, token, now or self.now)
        return caught.value.reason


def replace_file(path: Path, data: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


@pytest.fixture
async def world(issuer_server, new_mint, root, tmp_path, now) -> AsyncIterator[World]:
    mint = new_mint(issuer=issuer_server.url)
    issuer_server.serve_keys(mint.jwks)
    world = World(issuer_server, mint, root, tmp_path, now)
    await world.authenticator.start()
    yield world
    await world.authenticator.stop()


@pytest.fixture
def authenticate(world: World) -> Callable[..., Awaitable[Any]]:
    async def run(token: str, now: float = world.now) -> Any:
        return await world.authenticator.authenticate(world.leaf.chain, token, now)

    return run


async def test_certificate_and_bound_token_prove_a_caller(world, authenticate) -> None:
    identity = await authenticate(world.token())
    assert identity.spiffe_id == "spiffe://example/app"
    assert identity.client_id == "billing"
    assert identity.issuer == "corp"
    assert identity.thumbprint == world.leaf.thumbprint


async def test_the_same_token_is_verified_once(world, authenticate) -> None:
    token = world.token()
    first = await authenticate(token)
    assert await authenticate(token) is first
    assert world.server.asked.count("/jwks") == 1


async def test_a_caller_without_certificate_or_token_is_refused(world) -> None:
    assert await world.refusal((), world.token()) is Reason.CERTIFICATE_MISSING
    with pytest.raises(TokenMissing):
        await world.authenticator.authenticate(world.leaf.chain, None, world.now)


async def test_the_certificate_is_looked_at_before_the_token(world) -> None:
    assert await world.refusal((b"garbage",), "garbage") is Reason.CERTIFICATE_MALFORMED
    assert await world.refusal(world.leaf.chain, "garbage") is Reason.TOKEN_MALFORMED
    assert await world.refusal(world.leaf.chain, "\ud800") is Reason.TOKEN_MALFORMED


async def test_a_stolen_token_is_refused_even_while_its_owner_is_remembered(
    world, authenticate
) -> None:
    token = world.token()
    await authenticate(token)
    thief = world.root.leaf("spiffe://example/thief")
    assert await world.refusal(thief.chain, token) is Reason.BOUND_TO_ANOTHER_CERTIFICATE
    twin = world.root.leaf("spiffe://example/app")
    assert await world.refusal(twin.chain, token) is Reason.BOUND_TO_ANOTHER_CERTIFICATE


async def test_a_remembered_token_still_expires(world, authenticate) -> None:
    token = world.token()
    await authenticate(token)
    await authenticate(token, world.now + 629)
    assert await world.refusal(world.leaf.chain, token, world.now + 630) is Reason.TOKEN_EXPIRED


async def test_a_remembered_certificate_still_expires(world) -> None:
    short = world.root.leaf(not_after_s=100)
    token = world.mint.token(short.thumbprint)
    await world.authenticator.authenticate(short.chain, token, world.now)
    reason = await world.refusal(short.chain, token, world.now + 101)
    assert reason is Reason.CERTIFICATE_OUTSIDE_VALIDITY


async def test_a_certificate_revoked_by_its_ca_is_refused_on_the_next_request(
    world, authenticate
) -> None:
    token = world.token()
    await authenticate(token)
    replace_file(world.crl_file, world.root.crl(world.leaf.serial, this_update_s=-60))
    await world.authenticator.reload_trust()
    assert await world.refusal(world.leaf.chain, token) is Reason.CERTIFICATE_REVOKED


async def test_an_expired_list_lets_nobody_in(world, authenticate) -> None:
    token = world.token(exp=int(world.now) + 600, iat=int(world.now))
    await authenticate(token)
    replace_file(world.crl_file, world.root.crl(this_update_s=-60, next_update_s=50))
    await world.authenticator.reload_trust()
    assert await world.refusal(world.leaf.chain, token, world.now + 50) is Reason.CRL_EXPIRED
    assert not world.authenticator.readiness(world.now + 50).ready


async def test_a_vanished_list_keeps_working_until_it_expires(world, authenticate) -> None:
    world.crl_file.unlink()
    await world.authenticator.reload_trust()
    await authenticate(world.token())
    detail = world.authenticator.readiness(world.now).detail
    assert list(detail["files_not_in_use"]) == [str(world.crl_file)]


async def test_a_ca_that_is_taken_out_of_the_bundle_takes_its_certificates_with_it(
    world, authenticate, new_root
) -> None:
    token = world.token()
    identity = await authenticate(token)
    peer = world.authenticator.verify_peer(world.leaf.chain, world.now)
    replace_file(world.bundle, new_root("next root").pem)
    await world.authenticator.reload_trust()
    assert await world.refusal(world.leaf.chain, token) is Reason.CERTIFICATE_UNTRUSTED
    with pytest.raises(AuthenticationError):
        world.authenticator.recheck(identity, peer, world.now)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (Revocation("token_id", "token-1", "corp"), Reason.TOKEN_REVOKED),
        (Revocation("client", "billing"), Reason.CLIENT_REVOKED),
        (Revocation("certificate", "{serial}", "example"), Reason.CERTIFICATE_REVOKED),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
async def test_a_revocation_in_the_control_log_counts_at_once(
    world, authenticate, entry, reason
) -> None:
    token = world.token()
    identity = await authenticate(token)
    peer = world.authenticator.verify_peer(world.leaf.chain, world.now)
    world.authenticator.recheck(identity, peer, world.now)
    entry = replace(entry, value=entry.value.format(serial=f"{world.leaf.serial:x}"))
    world.authenticator.revocations = RevocationSet().extended(1, [entry], world.now)
    assert await world.refusal(world.leaf.chain, token) is reason
    with pytest.raises(AuthenticationError) as caught:
        world.authenticator.recheck(identity, peer, world.now)
    assert caught.value.reason is reason


async def test_an_open_stream_ends_with_token_certificate_and_issuer(world, authenticate) -> None:
    identity = await authenticate(world.token())
    peer = world.authenticator.verify_peer(world.leaf.chain, world.now)
    recheck = world.authenticator.recheck
    recheck(identity, peer, world.now + 629)
    with pytest.raises(AuthenticationError) as caught:
        recheck(identity, peer, world.now + 630)
    assert caught.value.reason is Reason.TOKEN_EXPIRED
    world.authenticator.replace_issuers([])
    with pytest.raises(AuthenticationError) as caught:
        recheck(identity, peer, world.now)
    assert caught.value.reason is Reason.UNKNOWN_ISSUER


async def test_an_unknown_issuer_is_refused_and_never_asked(world, new_mint) -> None:
    stranger = new_mint(issuer="https://evil.example")
    token = stranger.token(world.leaf.thumbprint)
    assert await world.refusal(world.leaf.chain, token) is Reason.UNKNOWN_ISSUER


async def test_an_issuer_cannot_speak_for_another(
    world, new_mint, new_issuer_server, authenticate
) -> None:
    """Mix-up: both issuers are trusted, each for its own tokens only, whatever the `kid`."""
    server = await new_issuer_server()
    partner = new_mint(issuer=server.url, kid=world.mint.kid)
    server.serve_keys(partner.jwks)
    settings = IssuerSettings("partner", server.url, "urn:sidegate", ca=server.ca)
    world.authenticator.replace_issuers([world.corp, settings])
    forged = partner.token(world.leaf.thumbprint, iss=world.server.url)
    assert await world.refusal(world.leaf.chain, forged) is Reason.SIGNATURE_INVALID
    honest = partner.token(world.leaf.thumbprint)
    assert (await authenticate(honest)).issuer == "partner"


async def test_an_algorithm_that_is_not_allowed_causes_no_fetch(world, new_mint) -> None:
    await world.authenticator.authenticate(world.leaf.chain, world.token(), world.now)
    asked = len(world.server.asked)
    world.clock.now += LIMITS.cooldown_s
    forged = new_mint(issuer=world.server.url, alg="HS256", key=b"s" * 32, kid="made-up")
    token = forged.token(world.leaf.thumbprint)
    assert await world.refusal(world.leaf.chain, token) is Reason.ALGORITHM_REFUSED
    assert len(world.server.asked) == asked


async def test_a_key_that_its_issuer_withdraws_takes_its_remembered_tokens_with_it(
    world, authenticate, new_mint
) -> None:
    token = world.token()
    await authenticate(token)
    successor = new_mint(issuer=world.server.url, kid="k2")
    world.server.serve_keys(successor.jwks)
    world.clock.now += LIMITS.cooldown_s
    await authenticate(successor.token(world.leaf.thumbprint))
    assert await world.refusal(world.leaf.chain, token) is Reason.KEY_UNKNOWN


async def test_a_key_that_stays_keeps_its_remembered_tokens(world, authenticate, new_mint) -> None:
    token = world.token()
    first = await authenticate(token)
    successor = new_mint(issuer=world.server.url, kid="k2")
    world.server.serve_keys({"keys": [world.mint.jwk, successor.jwk]})
    world.clock.now += LIMITS.cooldown_s
    await authenticate(successor.token(world.leaf.thumbprint))
    assert await authenticate(token) is first


async def test_changed_rules_of_an_issuer_apply_to_remembered_tokens(world, authenticate) -> None:
    token = world.token()
    await authenticate(token)
    world.authenticator.replace_issuers([replace(world.corp, max_ttl_s=60)])
    assert await world.refusal(world.leaf.chain, token) is Reason.TOKEN_LIVES_TOO_LONG


async def test_a_refused_token_is_not_remembered(world, authenticate) -> None:
    early = world.token(nbf=int(world.now) + 100)
    assert await world.refusal(world.leaf.chain, early) is Reason.TOKEN_NOT_YET_VALID
    assert await authenticate(early, world.now + 100)


async def test_an_issuer_that_is_down_is_a_passing_failure(world) -> None:
    async def broken(request: web.Request) -> web.Response:
        return web.Response(status=503)

    await world.authenticator.stop()
    world.server.routes.clear()
    world.server.routes["/.well-known/openid-configuration"] = broken
    authenticator = Authenticator(
        issuers=[world.corp],
        domains=[TrustDomain("example", world.bundle)],
        monotonic=world.clock,
    )
    await authenticator.start()
    with pytest.raises(IssuerUnavailable):
        await authenticator.authenticate(world.leaf.chain, world.token(), world.now)
    readiness = authenticator.readiness(world.now)
    assert not readiness.ready
    assert "503" in str(readiness.detail["issuers"])
    world.server.serve_keys(world.mint.jwks)
    world.clock.now += 1
    assert await authenticator.authenticate(world.leaf.chain, world.token(), world.now)
    assert authenticator.readiness(world.now).ready
    await authenticator.stop()


async def test_an_unbound_token_gets_in_only_with_a_warning_on_readiness(
    world, authenticate
) -> None:
    unbound = world.mint.token(None)
    assert await world.refusal(world.leaf.chain, unbound) is Reason.TOKEN_NOT_BOUND
    assert world.authenticator.readiness(world.now).detail["warnings"] == []
    world.authenticator.replace_issuers([replace(world.corp, binding="off")])
    await authenticate(unbound)
    (warning,) = world.authenticator.readiness(world.now).detail["warnings"]
    assert "binding is off for the issuer corp" in warning


async def test_what_is_remembered_is_bounded(world, authenticate) -> None:
    for number in range(50):
        await authenticate(world.token(jti=f"token-{number}"))
    assert len(world.authenticator._tokens) == 50
    assert world.authenticator._tokens.entries_max == module.TOKENS_MAX
    assert world.authenticator._peers.entries_max == module.CERTIFICATES_MAX


async def test_no_token_is_kept_in_memory(world, authenticate) -> None:
    import gc

    token = world.token()
    await authenticate(token)
    held = gc.get_referrers(token)
    assert not any(isinstance(holder, dict) and token in holder for holder in held)
    for (digest, thumbprint), verified in world.authenticator._tokens._entries.items():
        assert len(digest) == len(thumbprint) == 32
        assert token not in repr(verified)
        assert token.rpartition(".")[2] not in repr(verified)


async def test_wrong_settings_are_refused_before_anything_starts(world, tmp_path) -> None:
    with pytest.raises(ValueError, match=r"issuers\.corp\.binding"):
        Authenticator(issuers=[replace(world.corp, binding="maybe")], domains=[])
    missing = Authenticator(issuers=[], domains=[TrustDomain("example", tmp_path / "none.pem")])
    with pytest.raises(StartError, match=r"none\.pem"):
        await missing.start()


async def test_a_timer_that_fails_is_told(world, tmp_path, caplog) -> None:
    import asyncio

    failing = asyncio.Event()

    def clock() -> float:
        if failing.is_set():
            raise ZeroDivisionError("defect")
        return 1000.0

    authenticator = Authenticator(
        issuers=[world.corp], domains=[TrustDomain("example", world.bundle)], monotonic=clock
    )
    await authenticator.start()
    await authenticator.authenticate(world.leaf.chain, world.token(), world.now)
    failing.set()
    await asyncio.wait([authenticator._ticker], timeout=30)
    failing.clear()
    readiness = authenticator.readiness(world.now)
    assert not readiness.ready
    assert "no longer watched" in readiness.detail["error"]
    assert "no longer watched" in caplog.text
    await authenticator.stop()


async def test_files_are_watched_while_it_runs(world, authenticate) -> None:
    """The one test with the real timer: it waits for the effect, not for a time."""
    import asyncio

    async def until_refused() -> None:
        while True:
            await authenticate(world.token())
            await asyncio.sleep(0.05)

    await authenticate(world.token())
    replace_file(world.crl_file, world.root.crl(world.leaf.serial, this_update_s=-60))
    with pytest.raises(AuthenticationError) as caught:
        await asyncio.wait_for(until_refused(), 30)
    assert caught.value.reason is Reason.CERTIFICATE_REVOKED
