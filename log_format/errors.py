"""What can be wrong with bytes that claim to be a batch. Each error has a stable `code`."""


class FormatError(ValueError):
    """Bytes that are not a sound batch. Callers refuse them; nothing may be read from them."""

    code = "format"


class Truncated(FormatError):
    """The bytes end before the frame does. More input may still complete it."""

    code = "truncated"


class BadMagic(FormatError):
    """No frame begins here."""

    code = "bad_magic"


class UnsupportedVersion(FormatError):
    """A frame of a version that this program does not know; a newer one may."""

    code = "unsupported_version"


class ChecksumMismatch(FormatError):
    """The envelope's CRC-32C does not match its bytes."""

    code = "envelope_checksum"


class HashMismatch(FormatError):
    """The body's SHA-256 is not the one that the envelope declares."""

    code = "body_hash"


class TooLarge(FormatError):
    """A declared length is above its limit; nothing of that size was allocated."""

    code = "too_large"


class BadField(FormatError):
    """A field holds a value that the format does not allow."""

    code = "bad_field"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class BadBody(FormatError):
    """The body's columns are not laid out as the format says."""

    code = "bad_body"
