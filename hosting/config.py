"""One frozen, typed configuration object per service, from a YAML file and the environment.

    config = load_config(CoreConfig, service="core", path=Path("core.yaml"), environ=os.environ)

Unknown keys fail, missing keys fail, and every problem is reported at once with its place. A
section may check itself with a hook, `def problems(self) -> Iterator[tuple[str, str]]`, that
yields keys relative to itself and what is wrong with them. May import the tree, the units and
the standard library; must never import aiohttp or cryptography, because `--check-config` and
`--help` have to answer at once.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import IO, TypeVar, cast

from hosting.config_build import Builder
from hosting.config_environment import overlay_environment
from hosting.config_tree import ConfigProblem, Place, Section, read_tree
from hosting.config_types import is_section, known_keys

__all__ = ["ConfigError", "ConfigProblem", "Place", "check_config", "known_keys", "load_config"]

T = TypeVar("T")


class ConfigError(Exception):
    """A configuration that can't be used. Its text lists every problem, one on a line."""

    def __init__(self, problems: list[ConfigProblem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def load_config(cls: type[T], *, service: str, path: Path | None, environ: Mapping[str, str]) -> T:
    """The configuration of `service`, or ConfigError with everything that is wrong with it.

    `SIDEGATE_<SERVICE>_<KEY>` in `environ` overrides a key of the file; `__` goes into a section,
    as in `SIDEGATE_CORE_LOG__DURABILITY`. Relative paths are taken from the file's folder.
    """
    if not is_section(cls):
        raise TypeError(f"{cls.__name__} must be a frozen dataclass to be a configuration")
    tree, problems, folder = _written(path)
    if tree is None:
        raise ConfigError(problems)
    overlay_environment(tree, cls, service, environ, problems)
    config = Builder(folder, problems).section(cls, tree, "")
    if problems:
        # In the file's own order, then the environment's.
        file = str(path)
        raise ConfigError(sorted(problems, key=lambda one: (one.place.source != file, one.place)))
    return cast(T, config)


def _written(path: Path | None) -> tuple[Section | None, list[ConfigProblem], Path]:
    if path is None:
        return Section(Place("no file is named with --config")), [], Path.cwd()
    return *read_tree(path), path.absolute().parent


def check_config(
    cls: type[object],
    *,
    service: str,
    path: Path | None,
    environ: Mapping[str, str],
    out: IO[str],
) -> int:
    """What `--check-config` does: write `ok` or all problems to `out`. The exit code: 0 or 2."""
    try:
        load_config(cls, service=service, path=path, environ=environ)
    except ConfigError as error:
        out.write(f"{error}\n")
        return 2
    out.write("ok\n")
    return 0
