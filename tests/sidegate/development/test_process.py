import os
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sidegate.development.process import LogFile, ServiceProcess


async def start(code: str, pieces: list[bytes], inherited: Sequence[int] = ()) -> ServiceProcess:
    return await ServiceProcess.start(
        [sys.executable, "-c", code],
        environ=os.environ,
        inherited=inherited,
        output=pieces.append,
    )


async def test_both_outputs_are_read_to_the_end_before_the_end_is_told() -> None:
    pieces: list[bytes] = []
    code = "import sys; print('out' * 50000); print('err', file=sys.stderr); sys.exit(3)"
    process = await start(code, pieces)
    assert await process.wait() == 3
    output = b"".join(pieces)
    assert output.count(b"out") == 50000
    assert b"err" in output


async def test_the_signal_that_killed_it_is_told() -> None:
    pieces: list[bytes] = []
    process = await start("import sys; sys.stdin.read()", pieces)
    process.send(signal.SIGKILL)
    assert await process.wait() == -signal.SIGKILL
    process.send(signal.SIGTERM)


async def test_it_has_a_session_of_its_own_so_that_ctrl_c_does_not_reach_it() -> None:
    pieces: list[bytes] = []
    process = await start("import os; print(os.getsid(0) == os.getpid())", pieces)
    assert await process.wait() == 0
    assert b"".join(pieces) == b"True\n"


def test_its_standard_input_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    parent = f"""
import asyncio, os, sys
from sidegate.development.process import ServiceProcess
CHILD = "import sys; sys.stdin.read(); open({str(ended)!r}, 'w').close()"
async def main():
    await ServiceProcess.start([sys.executable, "-c", CHILD], environ=os.environ,
        inherited=[int(sys.argv[1])], output=print)
    print("started", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", parent, str(writing)], stdout=subprocess.PIPE, pass_fds=[writing]
    )
    os.close(writing)
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    process.kill()
    process.communicate()
    # The child holds the other end of this pipe: reading returns when it is gone.
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert ended.exists()


def test_a_log_is_private_and_appended_to(tmp_path: Path) -> None:
    file = tmp_path / "core.log"
    for piece in (b"one\n", b"two\n"):
        log = LogFile(file, 100)
        log.write(piece)
        log.close()
    assert file.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_log_never_takes_more_than_two_files_of_its_size(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "core.log", 100)
    for number in range(50):
        log.write(b"%09d\n" % number)
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["core.log", "core.log.1"]
    kept = (tmp_path / "core.log.1").read_bytes() + (tmp_path / "core.log").read_bytes()
    assert len(kept) <= 200
    assert kept.endswith(b"000000049\n")
