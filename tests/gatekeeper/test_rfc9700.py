"""RFC 9700, Best Current Practice for OAuth 2.0 Security: the clauses that concern who checks
tokens, against a real issuer over TLS. Those about browsers, codes and redirects concern others.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from gatekeeper.identity.authentication_errors import AuthenticationError, Reason
from gatekeeper.identity.authenticator import Authenticator
from gatekeeper.identity.trust import IssuerSettings, TrustDomain


@pytest.fixture(scope="module")
def caller(root):
    return root.leaf()


@pytest.fixture
def idp(issuer_server, new_mint):
    mint = new_mint(issuer=issuer_server.url)
    issuer_server.serve_keys(mint.jwks)
    return mint


@pytest.fixture
def corp(issuer_server) -> IssuerSettings:
    return IssuerSettings("corp", issuer_server.url, "urn:sidegate", ca=issuer_server.ca)


@pytest.fixture
async def authenticator(corp, root, tmp_path, idp) -> AsyncIterator[Authenticator]:
    """It asks an issuer for the first time when the first token of that issuer comes."""
    (tmp_path / "ca.pem").write_bytes(root.pem)
    domain = TrustDomain("example", tmp_path / "ca.pem")
    authenticator = Authenticator(issuers=[], domains=[domain])
    await authenticator.start()
    authenticator.replace_issuers([corp])
    yield authenticator
    await authenticator.stop()


@pytest.fixture
def refusal(authenticator, now) -> Callable[..., Awaitable[Reason]]:
    async def refuse(chain: Any, token: str | None) -> Reason:
        with pytest.raises(AuthenticationError) as caught:
            await authenticator.authenticate(chain, token, now)
        return caught.value.reason

    return refuse


async def test_2_2_1_tokens_are_bound_to_their_sender_unless_configured_otherwise(
    refusal, idp, caller
) -> None:
    assert IssuerSettings("x", "https://x.example", "urn:x").binding == "required"
    assert await refusal(caller.chain, idp.token(None)) is Reason.TOKEN_NOT_BOUND


async def test_2_3_a_token_for_another_resource_server_is_refused(refusal, idp, caller) -> None:
    token = idp.token(caller.thumbprint, aud="https://other-api.example")
    assert await refusal(caller.chain, token) is Reason.WRONG_AUDIENCE


async def test_2_6_an_issuer_is_reached_over_verified_tls_only(
    authenticator, refusal, corp, idp, new_issuer_server, caller
) -> None:
    for url in ("http://idp.example", "HTTP://idp.example"):
        assert [key for key, _ in replace(corp, issuer=url).problems()] == ["issuer"]
    impostor = await new_issuer_server(trusted=False)
    impostor.serve_keys(idp.jwks)
    authenticator.replace_issuers([replace(corp, issuer=impostor.url, ca=impostor.ca)])
    token = idp.token(caller.thumbprint, iss=impostor.url)
    assert await refusal(caller.chain, token) is Reason.ISSUER_UNAVAILABLE
    assert impostor.asked == []


async def test_4_4_a_malicious_issuer_cannot_pass_for_an_honest_one(
    authenticator, refusal, corp, idp, caller, new_mint, new_issuer_server, now
) -> None:
    """Mix-up: its metadata names the honest issuer, and its keys have the honest one's names."""
    server = await new_issuer_server()
    attacker = new_mint(issuer=server.url, kid=idp.kid)
    server.serve_keys(attacker.jwks, issuer=corp.issuer)
    settings = IssuerSettings("attacker", server.url, "urn:sidegate", ca=server.ca)
    authenticator.replace_issuers([corp, settings])
    own = attacker.token(caller.thumbprint)
    assert await refusal(caller.chain, own) is Reason.ISSUER_UNAVAILABLE
    forged = attacker.token(caller.thumbprint, iss=corp.issuer)
    assert await refusal(caller.chain, forged) is Reason.SIGNATURE_INVALID
    assert (
        await authenticator.authenticate(caller.chain, idp.token(caller.thumbprint), now)
    ).issuer


async def test_4_9_1_a_token_that_a_counterfeit_server_collected_is_worthless_to_it(
    refusal, idp, caller, root
) -> None:
    collected = idp.token(caller.thumbprint)
    counterfeit = root.leaf("spiffe://example/counterfeit")
    reason = await refusal(counterfeit.chain, collected)
    assert reason is Reason.BOUND_TO_ANOTHER_CERTIFICATE


async def test_4_9_2_a_compromised_server_cannot_use_the_tokens_that_it_was_sent(
    refusal, idp, caller, root
) -> None:
    """Tokens for that server have its audience; tokens for us are bound to their senders."""
    for_it = idp.token(caller.thumbprint, aud="https://compromised.example")
    assert await refusal(caller.chain, for_it) is Reason.WRONG_AUDIENCE
    compromised = root.leaf("spiffe://example/compromised")
    for_us = idp.token(caller.thumbprint)
    assert await refusal(compromised.chain, for_us) is Reason.BOUND_TO_ANOTHER_CERTIFICATE


async def test_4_10_1_a_stolen_token_does_not_work_without_its_certificate(
    authenticator, refusal, idp, caller, root, now
) -> None:
    token = idp.token(caller.thumbprint)
    await authenticator.authenticate(caller.chain, token, now)
    assert await refusal((), token) is Reason.CERTIFICATE_MISSING
    same_name = root.leaf("spiffe://example/app")
    assert await refusal(same_name.chain, token) is Reason.BOUND_TO_ANOTHER_CERTIFICATE
    same_key = root.leaf("spiffe://example/app", key=caller.key)
    assert await refusal(same_key.chain, token) is Reason.BOUND_TO_ANOTHER_CERTIFICATE


async def test_4_10_1_a_binding_to_a_key_is_not_downgraded_to_a_bearer_token(
    authenticator, refusal, corp, idp, caller
) -> None:
    authenticator.replace_issuers([replace(corp, binding="off")])
    dpop_bound = idp.token(None, cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"})
    assert await refusal(caller.chain, dpop_bound) is Reason.TOKEN_BINDING_UNSUPPORTED


async def test_4_10_2_an_audience_is_compared_by_the_letter(refusal, idp, caller) -> None:
    for audience in ("urn:sidegate:eu", "urn:sidegat", "urn:SIDEGATE", " urn:sidegate"):
        token = idp.token(caller.thumbprint, aud=audience)
        assert await refusal(caller.chain, token) is Reason.WRONG_AUDIENCE


async def test_4_11_an_issuer_that_redirects_is_not_followed(
    refusal, issuer_server, idp, caller, new_issuer_server
) -> None:
    elsewhere = await new_issuer_server()
    elsewhere.serve_keys(idp.jwks)

    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": elsewhere.url + request.path})

    issuer_server.routes = dict.fromkeys(issuer_server.routes, redirect)
    token = idp.token(caller.thumbprint)
    assert await refusal(caller.chain, token) is Reason.ISSUER_UNAVAILABLE
    assert elsewhere.asked == []


async def test_4_14_a_refresh_token_is_not_an_access_token(refusal, idp, caller) -> None:
    for typ in ("Refresh", "rt+jwt", "JWT"):
        token = idp.token(caller.thumbprint, header={"typ": typ})
        assert await refusal(caller.chain, token) is Reason.TOKEN_WRONG_TYPE


async def test_4_15_a_client_is_known_by_its_client_id_never_by_its_subject(
    authenticator, idp, caller, now
) -> None:
    """A client that registers under another's name as its subject gains nothing by it."""
    token = idp.token(caller.thumbprint, sub="admin", client_id="low")
    identity = await authenticator.authenticate(caller.chain, token, now)
    assert (identity.client_id, identity.subject) == ("low", "admin")
