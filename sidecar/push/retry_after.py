"""What a `Retry-After` header asks for: seconds, or a date (RFC 9110, 10.2.3). Pure."""

from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

RETRY_AFTER_S_MAX: Final = 3600.0
"""A header that is wrong by years must not silence a subscription for longer than this."""


def parse_retry_after(value: str | None, now_s: float) -> float | None:
    """Seconds to wait from `now_s` (since 1970) on, or None where the header says nothing."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        # Python itself refuses to read a number of thousands of digits.
        return RETRY_AFTER_S_MAX if len(text) > 9 else min(float(text), RETRY_AFTER_S_MAX)
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            # RFC 9110, 5.6.7: every HTTP date is in UTC, whatever its form.
            moment = moment.replace(tzinfo=UTC)
        wait_s = moment.timestamp() - now_s
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return min(max(wait_s, 0.0), RETRY_AFTER_S_MAX)
