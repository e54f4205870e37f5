"""Every benchmark, one after the other: `make bench`, or `make bench ARGS="core_append"`.

Without names all of them run, at full size: about a quarter of an hour on two cores.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def benchmarks() -> list[str]:
    """The modules here that measure; those that only serve as a peer's process have no verdict."""
    return sorted(
        path.stem
        for path in HERE.glob("*.py")
        if path.stem != "__main__" and "sys.exit(main())" in path.read_text()
    )


def main(names: list[str]) -> int:
    """Run the named ones, or all; 1 if one fell short."""
    known = benchmarks()
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    short = []
    for name in names or known:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode:
            short.append(name)
    print(f"short: {', '.join(short)}" if short else "every bar was reached")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
