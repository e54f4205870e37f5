"""Text files that `sidegate up` writes and that become the user's own by being changed.

The first line carries a hash of the rest. As long as it fits, the file is Sidegate's to rewrite;
any change, the marker's removal included, makes it the user's, and it is never written again.
Pure, standard library only.
"""

import hashlib
import re

_MARK = "# Written by `sidegate up`. Change it and it is yours: it will not be written again."
_FIRST_LINE = re.compile(re.escape(_MARK) + r" \(([0-9a-f]{16})\)\n")


def marked(text: str) -> str:
    """`text` under the line that says that Sidegate may rewrite it."""
    return f"{_MARK} ({_digest(text)})\n{text}"


def is_untouched(content: str) -> bool:
    """Whether `content` is what `marked` returned for some text, to the last character."""
    first = _FIRST_LINE.match(content)
    return first is not None and first[1] == _digest(content[first.end() :])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
