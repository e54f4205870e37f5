"""One public key of an issuer: read from a JWK, checked, and tied to the algorithms it may verify.

A key that is weak, malformed or meant for something else is refused here, before any signature is
looked at; the algorithm follows from the key, never from a token alone (RFC 8725, section 3.1).
The arithmetic is PyJWT's and cryptography's. Pure; knows nothing of tokens or of how keys arrive.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    SECP521R1,
    EllipticCurve,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from jwt.algorithms import Algorithm, get_default_algorithms

from gatekeeper.identity.authentication_errors import Reason, TokenRefused
from gatekeeper.identity.base64url import NotBase64url, decode_base64url

KID_CHARS_MAX: Final = 512
"""A key's name. The longest in use are certificate thumbprints and URLs."""
RSA_BITS_MIN: Final = 2048
"""RFC 7518, section 3.3: a key of 2048 bits or larger MUST be used."""
RSA_BITS_MAX: Final = 8192
"""A verification takes the square of this; a larger key would only serve to burn our time."""
RSA_EXPONENT_MIN: Final = 65537
RSA_EXPONENT_BITS_MAX: Final = 32
"""FIPS 186-5 wants more than 2^16; nobody uses more than 32 bits, and time grows with them."""

_HMAC_KEY_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""RFC 7518, section 3.2: a key as long as the hash or longer MUST be used."""
_RSA_ALGORITHMS: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final[Mapping[str, tuple[str, EllipticCurve, int]]] = {
    "P-256": ("ES256", SECP256R1(), 32),
    "P-384": ("ES384", SECP384R1(), 48),
    "P-521": ("ES512", SECP521R1(), 66),
}
_ED25519_ALGORITHMS: Final = frozenset({"EdDSA", "Ed25519"})
"""One algorithm with two names: RFC 8037's, and the fully specified one of RFC 9864."""

SYMMETRIC_ALGORITHMS: Final = frozenset(_HMAC_KEY_BYTES)
ASYMMETRIC_ALGORITHMS: Final = (
    _RSA_ALGORITHMS | _ED25519_ALGORITHMS | {algorithm for algorithm, _, _ in _CURVES.values()}
)
"""What an issuer may sign with. `none` is not an algorithm here, under any spelling."""

_PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})

Material = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | bytes


def _primitives() -> dict[str, Algorithm]:
    known = get_default_algorithms()
    known["Ed25519"] = known["EdDSA"]
    return {name: known[name] for name in ASYMMETRIC_ALGORITHMS | SYMMETRIC_ALGORITHMS}


_PRIMITIVES: Final = _primitives()


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A sound key. `thumbprint`, a hash of its numbers, tells keys apart, whatever their names."""

    kid: str | None
    algorithms: frozenset[str]
    thumbprint: bytes
    material: Material = field(repr=False, compare=False)

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """True when `signature` over `signed` was made with this key's other half."""
        if algorithm not in self.algorithms:
            return False
        return _PRIMITIVES[algorithm].verify(signed, self.material, signature)


def holds_private_members(jwk: Mapping[str, object]) -> bool:
    """True when the JWK gives away a secret. No issuer publishes such a key on purpose."""
    return not _PRIVATE_MEMBERS.isdisjoint(jwk)


def load_jwk(jwk: Mapping[str, object]) -> VerificationKey:
    """The key in `jwk`. Raises TokenRefused with `key_refused` when it is unfit to verify with.

    Of a private key only the public half is read.
    """
    _check_purpose(jwk)
    kid = jwk.get("kid")
    if kid is not None and (not isinstance(kid, str) or len(kid) > KID_CHARS_MAX):
        raise _refused(f"`kid` must be a string of at most {KID_CHARS_MAX} characters")
    kty = jwk.get("kty")
    try:
        match kty:
            case "EC":
                algorithms, material, identity = _load_ec(jwk)
            case "RSA":
                algorithms, material, identity = _load_rsa(jwk)
            case "OKP":
                algorithms, material, identity = _load_okp(jwk)
            case "oct":
                algorithms, material, identity = _load_oct(jwk)
            case _:
                raise _refused("`kty` must be EC, RSA, OKP or oct")
    except (ValueError, TypeError) as error:
        raise _refused(f"the {kty} key's numbers make no key") from error
    declared = jwk.get("alg")
    if declared is not None:
        if not isinstance(declared, str) or declared not in algorithms:
            raise _refused("`alg` is not an algorithm for this key's type, curve and size")
        algorithms = frozenset({declared})
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":")).encode()
    return VerificationKey(kid, algorithms, hashlib.sha256(canonical).digest(), material)


def _check_purpose(jwk: Mapping[str, object]) -> None:
    """RFC 7517, sections 4.2 and 4.3: the key must be meant for checking signatures."""
    use = jwk.get("use", "sig")
    if use != "sig":
        raise _refused("`use` must be sig")
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or not all(isinstance(item, str) for item in operations):
        raise _refused("`key_ops` must be a list of strings")
    if len(set(operations)) != len(operations):
        raise _refused("`key_ops` names an operation twice")
    if "verify" not in operations:
        raise _refused("`key_ops` must include verify")


_Loaded = tuple[frozenset[str], Material, dict[str, str]]
"""What a key may verify, the key itself, and the numbers that make it this key."""


def _load_ec(jwk: Mapping[str, object]) -> _Loaded:
    crv = _text(jwk, "crv")
    if crv not in _CURVES:
        raise _refused(f"`crv` of an EC key must be one of {', '.join(_CURVES)}")
    algorithm, curve, size = _CURVES[crv]
    x, y = _octets(jwk, "x"), _octets(jwk, "y")
    if len(x) != size or len(y) != size:
        raise _refused(f"`x` and `y` of a {crv} key must have {size} bytes")
    # cryptography raises ValueError for a point off the curve (RFC 8725, section 3.4).
    numbers = EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), curve)
    identity = {"crv": crv, "kty": "EC", "x": _text(jwk, "x"), "y": _text(jwk, "y")}
    return frozenset({algorithm}), numbers.public_key(), identity


def _load_rsa(jwk: Mapping[str, object]) -> _Loaded:
    modulus, exponent = int.from_bytes(_octets(jwk, "n")), int.from_bytes(_octets(jwk, "e"))
    if not RSA_BITS_MIN <= modulus.bit_length() <= RSA_BITS_MAX:
        raise _refused(f"an RSA key must have {RSA_BITS_MIN} to {RSA_BITS_MAX} bits")
    if modulus % 2 == 0 or exponent % 2 == 0:
        raise _refused("`n` and `e` of an RSA key must be odd")
    if exponent < RSA_EXPONENT_MIN or exponent.bit_length() > RSA_EXPONENT_BITS_MAX:
        raise _refused(f"`e` of an RSA key must be at least {RSA_EXPONENT_MIN} and have 32 bits")
    identity = {"e": f"{exponent:x}", "kty": "RSA", "n": f"{modulus:x}"}
    return _RSA_ALGORITHMS, RSAPublicNumbers(exponent, modulus).public_key(), identity


def _load_okp(jwk: Mapping[str, object]) -> _Loaded:
    if jwk.get("crv") != "Ed25519":
        raise _refused("`crv` of an OKP key must be Ed25519")
    material = Ed25519PublicKey.from_public_bytes(_octets(jwk, "x"))
    return _ED25519_ALGORITHMS, material, {"crv": "Ed25519", "kty": "OKP", "x": _text(jwk, "x")}


def _load_oct(jwk: Mapping[str, object]) -> _Loaded:
    secret = _octets(jwk, "k")
    algorithms = frozenset(
        name for name, bytes_min in _HMAC_KEY_BYTES.items() if len(secret) >= bytes_min
    )
    if not algorithms:
        raise _refused(f"an oct key must have at least {min(_HMAC_KEY_BYTES.values())} bytes")
    return algorithms, secret, {"k": _text(jwk, "k"), "kty": "oct"}


def _text(jwk: Mapping[str, object], member: str) -> str:
    value = jwk.get(member)
    if not isinstance(value, str):
        raise _refused(f"`{member}` must be a string")
    return value


def _octets(jwk: Mapping[str, object], member: str) -> bytes:
    try:
        return decode_base64url(_text(jwk, member))
    except NotBase64url as error:
        raise _refused(f"`{member}` must be base64url without padding") from error


def _refused(problem: str) -> TokenRefused:
    return TokenRefused(Reason.KEY_REFUSED, f"the issuer's key is unfit: {problem}")
