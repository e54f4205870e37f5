"""What the handlers share: reading a body within its limit, and the topic of a path."""

from aiohttp import web

from log_format.errors import BadField
from log_format.topic import check_any_topic, check_topic
from sidecar.errors import BadQuery, TooLarge


async def read_body(request: web.Request, bytes_max: int) -> bytes:
    """The whole body, or TooLarge as soon as it is known to be above the limit."""
    declared = request.content_length
    if declared is not None and declared > bytes_max:
        raise _too_large(declared, bytes_max)
    chunks: list[bytes] = []
    size = 0
    while chunk := await request.content.readany():
        size += len(chunk)
        if size > bytes_max:
            raise _too_large(size, bytes_max)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(size: int, bytes_max: int) -> TooLarge:
    return TooLarge(
        f"body: has {size} bytes or more; the limit is {bytes_max}. Send less at a time, "
        "or raise limits.message_bytes_max"
    )


def any_topic(request: web.Request) -> str:
    """The topic in the path, the system's own included, or BadQuery."""
    try:
        return check_any_topic(request.match_info["topic"])
    except BadField as error:
        raise BadQuery("topic", str(error).removeprefix("topic: ")) from error


def app_topic(request: web.Request) -> str:
    """The topic in the path that an app wants to publish to, or BadQuery."""
    try:
        return check_topic(request.match_info["topic"])
    except BadField as error:
        raise BadQuery("topic", str(error).removeprefix("topic: ")) from error


def path_number(request: web.Request, name: str) -> int:
    """A number in the path, or BadQuery."""
    text = request.match_info[name]
    # Python itself refuses to read a number of thousands of digits, so the length comes first.
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) >= 2**63:
        raise BadQuery(name, f"{text[:32]!r} is not a number such as 0")
    return int(text)
