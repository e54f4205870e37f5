"""One run of one service as a child process, with its output and its end.

The child is in a session of its own, so that the terminal's Ctrl-C reaches `sidegate up` alone,
and has a pipe as standard input, which ends when `sidegate up` does, however that happens.
Must never know what the child is, nor what to do when it ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

# One read of a child's output; a pipe holds no more at a time on Linux.
READ_BYTES_MAX = 64 * 1024


class ServiceProcess:
    """A started child. `output` is called with each piece of what it prints, as it comes."""

    def __init__(self, process: Process, output: Callable[[bytes], None]) -> None:
        self._process = process
        self._reading = asyncio.create_task(self._read(output))

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        inherited: Sequence[int],
        output: Callable[[bytes], None],
    ) -> ServiceProcess:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            env=dict(environ),
            pass_fds=tuple(inherited),
            start_new_session=True,
        )
        return cls(process, output)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> int:
        """The exit code, negative for a signal, once the child is gone and its output is read."""
        code = await self._process.wait()
        await self._reading
        return code

    def send(self, number: signal.Signals) -> None:
        """Signal the child; one that is gone already needs no signal."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _read(self, output: Callable[[bytes], None]) -> None:
        stream = self._process.stdout
        if stream is None:
            raise RuntimeError("the child was started without a pipe for its output")
        while piece := await stream.read(READ_BYTES_MAX):
            output(piece)


class LogFile:
    """A service's output on disk: at most two files of `bytes_max`, the older one named `.1`."""

    def __init__(self, file: Path, bytes_max: int) -> None:
        self._path = file
        self._bytes_max = bytes_max
        self._file = self._opened()

    def write(self, piece: bytes) -> None:
        if self._file.tell() + len(piece) > self._bytes_max and self._file.tell() > 0:
            self._file.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._file = self._opened()
        self._file.write(piece)

    def close(self) -> None:
        self._file.close()

    def _opened(self) -> IO[bytes]:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "ab", buffering=0)
