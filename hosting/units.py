"""Durations, sizes and addresses as people write them in a configuration.

Standard library only. `Seconds` and `ByteSize` are plain `float` and `int` to the type checker;
the annotation tells the configuration loader how to read the text.
"""

import math
import re
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv6Address
from pathlib import Path
from typing import Annotated, Final


class Unit(Enum):
    """How the text of a number is read."""

    DURATION = "duration"
    BYTES = "bytes"


Seconds = Annotated[float, Unit.DURATION]
"""A duration in seconds; in a configuration `15m`, `200ms`, or a bare number of seconds."""
ByteSize = Annotated[int, Unit.BYTES]
"""A number of bytes; in a configuration `2MiB`, `64kB`, or a bare number of bytes."""

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)
_SECONDS: Final = {
    "us": 1e-6,
    "ms": 1e-3,
    "": 1.0,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)
_BYTES: Final = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
PORT_MAX: Final = 65535


def parse_duration(text: str | float) -> float:
    """Seconds from `"15m"`, `"200ms"`, `"1.5h"` or a number of seconds. Never negative."""
    if isinstance(text, int | float):
        seconds = float(text)
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError("must be a duration of zero or more, such as 30, 200ms or 15m")
        return seconds
    match = _DURATION.fullmatch(text.strip())
    if match is None or match[2] not in _SECONDS:
        raise ValueError(f"must be a duration such as 30, 200ms, 15m, 2h or 7d, not {text!r}")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if not math.isfinite(seconds):
        raise ValueError(f"must be a duration that a clock can count, not {text!r}")
    return seconds


def parse_bytes(text: str | int) -> int:
    """A number of bytes from `"2MiB"`, `"64kB"` or a number. Never negative, always whole."""
    if isinstance(text, int):
        if text < 0:
            raise ValueError("must be a size of zero or more, such as 1024, 64kB or 2MiB")
        return text
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2] not in _BYTES:
        raise ValueError(f"must be a size such as 1024, 64kB, 2MiB or 1GiB, not {text!r}")
    whole, _, fraction = match[1].partition(".")
    scale: int = 10 ** len(fraction)
    size, rest = divmod(int(whole + fraction) * _BYTES[match[2]], scale)
    if rest:
        raise ValueError(f"must be a whole number of bytes, not {text!r}")
    return size


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service listens: a host and port, or the path of a Unix socket.

    An empty host means every interface. Exactly one of `path` and `port` is set.
    """

    host: str = ""
    port: int | None = None
    path: Path | None = None

    def __post_init__(self) -> None:
        if (self.port is None) == (self.path is None):
            raise ValueError("an address is either a port or the path of a Unix socket")
        if self.port is not None and not 0 <= self.port <= PORT_MAX:
            raise ValueError(f"the port must lie between 0 and {PORT_MAX}, not {self.port}")

    @classmethod
    def parse(cls, text: str) -> "Address":
        """`"127.0.0.1:9000"`, `"[::1]:9000"`, `":9000"` (every interface) or `"unix:core.sock"`."""
        text = text.strip()
        if text.startswith("unix:"):
            if not text.removeprefix("unix:"):
                raise ValueError("must name a file after unix:, such as unix:run/core.sock")
            return cls(path=Path(text.removeprefix("unix:")))
        host, colon, port = text.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit():
            raise ValueError(
                f"must be host:port or unix:path, such as 127.0.0.1:9000, not {text!r}"
            )
        return cls(host=_host(host, text), port=int(port))

    def relative_to(self, folder: Path) -> "Address":
        """The same address, with a relative socket path taken from `folder`."""
        return self if self.path is None else Address(path=folder / self.path)

    @property
    def is_unix(self) -> bool:
        """True for a Unix socket."""
        return self.path is not None

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _host(host: str, text: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        try:
            return str(IPv6Address(host[1:-1]))
        except ValueError as error:
            raise ValueError(f"must hold an IPv6 address in its brackets, not {text!r}") from error
    if ":" in host or "/" in host or any(character.isspace() for character in host):
        raise ValueError(f"must be host:port with an IPv6 host in brackets, not {text!r}")
    return host
