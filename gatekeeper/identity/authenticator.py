"""Who is calling: certificate and token of a request, taken together, as one proven identity.

Ties the pure parts together and keeps what they cost: verified certificates and verified tokens
are remembered while they hold. Expiry and revocation are looked at anew for every request, and by
`recheck` for streams that stay open. Knows nothing of policy, of HTTP or of topics.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gatekeeper.identity.access_token import read_token, verify_access_token
from gatekeeper.identity.authentication_errors import Reason, TokenMissing, TokenRefused, quoted
from gatekeeper.identity.bounded_cache import BoundedCache
from gatekeeper.identity.certificates import PeerCertificate, holds_at, verify_peer_chain
from gatekeeper.identity.identity import Identity
from gatekeeper.identity.issuers import Issuer, Issuers
from gatekeeper.identity.jwk import VerificationKey
from gatekeeper.identity.jwks import KeyLimits
from gatekeeper.identity.revocation import RevocationSet
from gatekeeper.identity.trust import IssuerSettings, TrustDomain
from gatekeeper.identity.trust_files import TrustFiles, TrustFilesError, TrustState
from hosting.lifecycle import Readiness, StartError

log = logging.getLogger("sidegate.gatekeeper")

TOKENS_MAX: Final = 4096
"""Verified tokens that are remembered: one for each of so many sidecars, about 5 KiB each."""
CERTIFICATES_MAX: Final = 4096
"""Verified certificates that are remembered: as many, about 4 KiB each."""
TICK_S: Final = 1.0
"""Changed files are in force, and ageing keys are asked for, within this time."""


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    """A token that held, with what it held by: only by the same things may it be used again."""

    identity: Identity
    issuer: Issuer
    key: VerificationKey
    generation: int


class Authenticator:
    """Proves callers. A component; used from one event loop.

    Invariant: whatever is remembered was verified under the present bundles, the present settings
    of its issuer and a key that the issuer still publishes, or it is verified again.
    """

    name = "authentication"

    def __init__(
        self,
        *,
        issuers: Iterable[IssuerSettings],
        domains: Iterable[TrustDomain],
        monotonic: Callable[[], float] = time.monotonic,
        key_limits: KeyLimits | None = None,
    ) -> None:
        self._files = TrustFiles(domains)
        self._trust: TrustState = self._files.state
        self._issuers = Issuers(clock=monotonic, limits=key_limits or KeyLimits())
        self._issuers.replace(issuers)
        self._peers: BoundedCache[bytes, tuple[int, PeerCertificate]]
        self._peers = BoundedCache(CERTIFICATES_MAX)
        self._tokens: BoundedCache[tuple[bytes, bytes], _VerifiedToken] = BoundedCache(TOKENS_MAX)
        self._ticker: asyncio.Task[None] | None = None
        self.revocations = RevocationSet()
        """Replaced as a whole by whoever follows the control log; the next check sees it."""

    async def start(self) -> None:
        """Read the trust domains' files and begin to fetch keys. Issuers may still be down."""
        try:
            self._trust = await asyncio.to_thread(self._files.load)
        except TrustFilesError as error:
            raise StartError(str(error)) from error
        await self._issuers.refresh_ahead()
        self._ticker = asyncio.create_task(self._tick(), name="authentication")
        self._ticker.add_done_callback(_report_end)

    async def drain(self) -> None:
        """Nothing to finish: callers are proven until the last request ends."""

    async def stop(self) -> None:
        """End the timer and the fetches."""
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
            self._ticker = None
        await self._issuers.close()

    async def authenticate(
        self, peer_chain_der: Sequence[bytes], bearer: str | None, now: float
    ) -> Identity:
        """Prove a caller by what it sent in the handshake, leaf first, and by its bearer token.

        Raises an AuthenticationError, whose reason says what did not hold.
        """
        peer = self.verify_peer(peer_chain_der, now)
        if bearer is None:
            raise TokenMissing("send the access token in the header `Authorization: Bearer …`")
        # The token itself is not kept: whoever reads our memory should find none that works.
        digest = hashlib.sha256(bearer.encode("utf-8", "surrogatepass")).digest()
        remembered = self._tokens.get((digest, peer.thumbprint))
        if remembered is not None and self._still_holds(remembered, digest, now):
            identity = remembered.identity
        else:
            identity = await self._verify_token(bearer, digest, peer, now)
        self.revocations.check_token(identity, now)
        return identity

    def verify_peer(self, chain: Sequence[bytes], now: float) -> PeerCertificate:
        """The certificate of a connection, verified and not revoked. Raises CertificateRefused."""
        trust = self._trust
        remembered = self._peers.get(chain[0]) if chain else None
        if remembered and remembered[0] == trust.generation and holds_at(remembered[1], now):
            peer = remembered[1]
        else:
            peer = verify_peer_chain(chain, trust.bundles, now)
            self._peers.put(chain[0], (trust.generation, peer))
        crls = trust.crls.get(peer.trust_domain)
        if crls is not None:
            crls.check(peer, now)
        self.revocations.check_certificate(peer, now)
        return peer

    def recheck(self, identity: Identity, peer: PeerCertificate, now: float) -> None:
        """Raise an AuthenticationError when a caller that was proven before no longer is."""
        self.verify_peer(peer.chain, now)
        issuer = self._issuers.get(identity.issuer_url)
        if issuer is None or issuer.settings.name != identity.issuer:
            raise _unknown_issuer(identity.issuer_url)
        if now >= identity.expires_at:
            raise TokenRefused(
                Reason.TOKEN_EXPIRED, "the token has expired; send a new one in the stream"
            )
        self.revocations.check_token(identity, now)

    def replace_issuers(self, issuers: Iterable[IssuerSettings]) -> None:
        """Take up the issuers of a new policy. Raises ValueError when a setting is wrong."""
        self._issuers.replace(issuers)

    async def reload_trust(self) -> None:
        """Take up the trust domains' files that changed. The timer calls this every second."""
        self._trust = await asyncio.to_thread(self._files.reload_changed)

    def readiness(self, now: float) -> Readiness:
        """Ready while the domains' files hold and the tokens of some issuer can be checked."""
        trust = self._trust
        stale = [name for name, crls in trust.crls.items() if not crls.current(now)]
        stopped = self._ticker is not None and self._ticker.done()
        detail: dict[str, object] = {
            "issuers": {
                issuer.settings.name: {
                    "keys_age_s": issuer.keys.age_s(),
                    "problem": issuer.keys.state.problem,
                }
                for issuer in self._issuers
            },
            "files_not_in_use": dict(trust.problems),
            "domains_without_current_crl": stale,
            "warnings": [
                f"binding is off for the issuer {issuer.settings.name}: a stolen token of it works "
                "with any certificate that the policy accepts"
                for issuer in self._issuers
                if issuer.settings.binding == "off"
            ],
        }
        if stopped:
            detail["error"] = "files and keys are no longer watched; restart the gatekeeper"
        usable = not len(self._issuers) or any(issuer.keys.usable() for issuer in self._issuers)
        return Readiness(bool(trust.bundles) and usable and not stale and not stopped, detail)

    async def _verify_token(
        self, bearer: str, digest: bytes, peer: PeerCertificate, now: float
    ) -> Identity:
        token = read_token(bearer)
        issuer = self._issuers.get(token.issuer)
        if issuer is None:
            raise _unknown_issuer(token.issuer)
        settings = issuer.settings
        # Before the keys are asked: an algorithm that is not allowed must not cause a fetch.
        if token.jws.alg not in settings.algorithms:
            raise TokenRefused(
                Reason.ALGORITHM_REFUSED,
                f"the token is signed with {token.jws.alg}; {settings.name} may use "
                f"{', '.join(settings.algorithms)}",
            )
        key = await issuer.keys.find(token.jws.kid, token.jws.alg)
        identity = verify_access_token(token, settings, key, peer, now)
        verified = _VerifiedToken(identity, issuer, key, issuer.keys.state.generation)
        self._tokens.put((digest, peer.thumbprint), verified)
        return identity

    def _still_holds(self, token: _VerifiedToken, digest: bytes, now: float) -> bool:
        """True when a remembered token needs no new look at its signature and claims."""
        identity = token.identity
        if now >= identity.expires_at or self._issuers.get(identity.issuer_url) is not token.issuer:
            self._tokens.discard((digest, identity.thumbprint))
            return False
        state = token.issuer.keys.state
        if state.generation != token.generation:
            if state.keys is None or not state.keys.holds(token.key):
                self._tokens.discard((digest, identity.thumbprint))
                return False
            renewed = replace(token, generation=state.generation)
            self._tokens.put((digest, identity.thumbprint), renewed)
        return True

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            await self.reload_trust()
            await self._issuers.refresh_ahead()


def _report_end(ticker: asyncio.Task[None]) -> None:
    """A timer that ends by itself is a defect: it is told here, and by `readiness` from then on."""
    if not ticker.cancelled():
        log.error("files and keys are no longer watched", exc_info=ticker.exception())


def _unknown_issuer(issuer: str) -> TokenRefused:
    return TokenRefused(
        Reason.UNKNOWN_ISSUER,
        f"the token's issuer {quoted(issuer)} is not among the policy's issuers",
    )
