"""Signed text: RFC 7515's compact form, read strictly, and its signature checked with one key.

PyJWT reads more than it should: padding, spare bits, members that stand twice, embedded keys. So
the form is read here, by the letter of RFC 7515 and RFC 8725, and only the arithmetic is left to
PyJWT and cryptography. Pure; knows nothing of claims, issuers or clocks.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from gatekeeper.identity.authentication_errors import Reason, TokenRefused
from gatekeeper.identity.base64url import NotBase64url, decode_base64url
from gatekeeper.identity.jwk import (
    ASYMMETRIC_ALGORITHMS,
    KID_CHARS_MAX,
    SYMMETRIC_ALGORITHMS,
    VerificationKey,
    load_jwk,
)
from gatekeeper.identity.strict_json import NotStrictJson, load_object

TOKEN_CHARS_MAX: Final = 8192
"""One header line, as long as an HTTP server takes it; tokens in use have 1 to 4 KiB."""
_HEADER_CHARS_MAX: Final = 2048
"""A header names an algorithm, a key and a type; certificates inside it are refused anyway."""
_TYPE_CHARS_MAX: Final = 128

_REFUSED_MEMBERS: Final[Mapping[str, str]] = {
    "jwk": "brings its own key",
    "jku": "says where to fetch its key",
    "x5u": "says where to fetch its certificate",
    "x5c": "brings its own certificates",
    "crit": "requires an extension that is not understood",
    "b64": "has an unencoded payload",
}
"""RFC 8725, section 3.10: a key comes from the issuer's own key set and from nowhere else.
`crit` is refused whatever it lists, because no extension is understood (RFC 7515, 4.1.11)."""


@dataclass(frozen=True, slots=True)
class CompactJws:
    """A well-formed signed text. Nothing in it is proven before `check_signature`."""

    alg: str
    kid: str | None
    typ: str | None
    cty: str | None
    payload: bytes = field(repr=False)
    signed: bytes = field(repr=False)
    signature: bytes = field(repr=False)


def verify_jws(
    jwk: Mapping[str, object], compact: str, *, algorithms: Collection[str] | None = None
) -> bytes:
    """The payload of `compact`, whose signature `jwk` verifies. Raises TokenRefused otherwise.

    `algorithms` narrows what is accepted; without it the key alone decides.
    """
    key = load_jwk(jwk)
    jws = parse_compact(compact)
    check_signature(jws, key, algorithms)
    return jws.payload


def parse_compact(compact: str) -> CompactJws:
    """Read the three parts of a compact JWS. The signature is not checked here."""
    if not isinstance(compact, str):
        raise TokenRefused(Reason.TOKEN_MALFORMED, "the token is not text")
    if len(compact) > TOKEN_CHARS_MAX:
        raise TokenRefused(
            Reason.TOKEN_TOO_LARGE,
            f"the token has {len(compact)} characters; the limit is {TOKEN_CHARS_MAX}. "
            "Let the issuer put fewer claims into it",
        )
    parts = compact.split(".")
    if len(parts) != 3:
        raise _malformed(
            f"a signed token has 3 parts between dots, this one {len(parts)}"
            + (" (encrypted tokens are not supported)" if len(parts) == 5 else "")
        )
    header_text, payload_text, signature_text = parts
    if len(header_text) > _HEADER_CHARS_MAX:
        raise TokenRefused(
            Reason.TOKEN_TOO_LARGE, f"the token's header has more than {_HEADER_CHARS_MAX} bytes"
        )
    header = _load_header(_decode(header_text, "header"))
    if not signature_text:
        raise TokenRefused(Reason.SIGNATURE_INVALID, "the token has no signature")
    alg = header.get("alg")
    if not isinstance(alg, str) or alg not in _SUPPORTED:
        raise TokenRefused(
            Reason.ALGORITHM_REFUSED, "the token's `alg` is missing or is no supported algorithm"
        )
    return CompactJws(
        alg=alg,
        kid=_optional_text(header, "kid", KID_CHARS_MAX),
        typ=_optional_text(header, "typ", _TYPE_CHARS_MAX),
        cty=_optional_text(header, "cty", _TYPE_CHARS_MAX),
        payload=_decode(payload_text, "payload"),
        signed=f"{header_text}.{payload_text}".encode("ascii"),
        signature=_decode(signature_text, "signature"),
    )


def check_signature(
    jws: CompactJws, key: VerificationKey, algorithms: Collection[str] | None = None
) -> None:
    """Hold the signature against `key`. Raises TokenRefused when it is not this key's."""
    if algorithms is not None and jws.alg not in algorithms:
        raise TokenRefused(
            Reason.ALGORITHM_REFUSED,
            f"the token is signed with {jws.alg}; allowed are {', '.join(sorted(algorithms))}",
        )
    if jws.alg not in key.algorithms:
        raise TokenRefused(
            Reason.ALGORITHM_REFUSED, f"the token's key is not for {jws.alg} signatures"
        )
    if jws.kid is not None and key.kid is not None and jws.kid != key.kid:
        raise TokenRefused(Reason.KEY_UNKNOWN, "the token names another key by its `kid`")
    if not key.verifies(jws.alg, jws.signed, jws.signature):
        raise TokenRefused(
            Reason.SIGNATURE_INVALID, "the token's signature does not match its issuer's key"
        )


_SUPPORTED: Final = ASYMMETRIC_ALGORITHMS | SYMMETRIC_ALGORITHMS


def _load_header(data: bytes) -> dict[str, object]:
    try:
        header = load_object(data)
    except NotStrictJson as error:
        raise _malformed(f"its header is {error}") from error
    for member, meaning in _REFUSED_MEMBERS.items():
        if member in header:
            raise TokenRefused(
                Reason.TOKEN_HEADER_REFUSED, f"the token's header has `{member}`: it {meaning}"
            )
    return header


def _optional_text(header: Mapping[str, object], member: str, chars_max: int) -> str | None:
    value = header.get(member)
    if member in header and (not isinstance(value, str) or not 0 < len(value) <= chars_max):
        raise _malformed(
            f"`{member}` in its header must be a string of 1 to {chars_max} characters"
        )
    return value if isinstance(value, str) else None


def _decode(text: str, part: str) -> bytes:
    try:
        return decode_base64url(text)
    except NotBase64url as error:
        raise _malformed(f"its {part} is {error}") from error


def _malformed(problem: str) -> TokenRefused:
    return TokenRefused(Reason.TOKEN_MALFORMED, f"the token is malformed: {problem}")
