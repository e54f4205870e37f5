"""The keys that one issuer publishes, and which of them a token means. Pure.

Keys that are not for us (encryption, other algorithms) are left out, as RFC 7517, section 5,
asks; keys that are unsound are left out too and reported, so that one bad key does not lock out
the tokens of the good ones.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from gatekeeper.identity.authentication_errors import Reason, TokenRefused
from gatekeeper.identity.jwk import VerificationKey, holds_private_members, load_jwk
from gatekeeper.identity.strict_json import NotStrictJson, load_object

KEYS_MAX: Final = 64
"""Keys of one issuer. Large providers publish two to ten."""


class BadKeySet(ValueError):
    """A document that is no key set, or has no key that can be used."""


@dataclass(frozen=True, slots=True)
class KeySet:
    """The sound keys of one issuer. `problems` tells which others were left out and why."""

    keys: tuple[VerificationKey, ...]
    problems: tuple[str, ...] = ()

    def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        """The key that a token means, or None when it is not here and a newer set may have it.

        Raises TokenRefused when a newer set can't help.
        """
        named = [key for key in self.keys if kid is None or key.kid == kid]
        if not named:
            return None
        fitting = [key for key in named if algorithm in key.algorithms]
        if len(fitting) == 1:
            return fitting[0]
        if kid is not None and not fitting:
            raise TokenRefused(
                Reason.ALGORITHM_REFUSED, f"the token's key is not for {algorithm} signatures"
            )
        if fitting:
            raise TokenRefused(
                Reason.KEY_UNKNOWN,
                "the token does not say by a `kid` of its own which of its issuer's keys it means",
            )
        return None

    def holds(self, key: VerificationKey) -> bool:
        """True when this very key is still published."""
        return any(other.thumbprint == key.thumbprint for other in self.keys)


def parse_key_set(document: bytes, algorithms: Collection[str]) -> KeySet:
    """The keys in `document` that may verify one of `algorithms`."""
    try:
        listed = load_object(document).get("keys")
    except NotStrictJson as error:
        raise BadKeySet(f"the key set is {error}") from error
    if not isinstance(listed, list):
        raise BadKeySet("the key set has no list `keys`")
    if len(listed) > KEYS_MAX:
        raise BadKeySet(f"the key set has {len(listed)} keys; the limit is {KEYS_MAX}")
    keys: list[VerificationKey] = []
    problems: list[str] = []
    for number, jwk in enumerate(listed, 1):
        if not isinstance(jwk, dict):
            problems.append(f"key {number} is not an object")
        elif jwk.get("use", "sig") != "sig" or jwk.get("kty") == "oct":
            continue
        elif holds_private_members(jwk):
            problems.append(f"key {number} is a private key: the issuer gives its secret away")
        else:
            try:
                key = load_jwk(jwk)
            except TokenRefused as error:
                problems.append(f"key {number}: {error}")
                continue
            if not key.algorithms.isdisjoint(algorithms):
                keys.append(key)
    if not keys:
        raise BadKeySet(
            f"the key set has no key for {', '.join(sorted(algorithms))}"
            + (f" ({'; '.join(problems)})" if problems else "")
        )
    return KeySet(tuple(keys), tuple(problems))
