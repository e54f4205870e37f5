"""Environment variables laid over the tree of a configuration file.

`SIDEGATE_CORE_LOG__DURABILITY=os` sets `log.durability` of the service `core`. A variable with
the service's prefix that is no key is a problem, because a misspelt override that changes
nothing is worse than a service that does not start. Standard library and the tree only.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hosting.config_tree import ConfigProblem, Place, Section, Text
from hosting.config_types import section_fields, section_of

_SERVICE_LINK: Final = re.compile(
    r"(.+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)"
)
"""What Kubernetes sets in every container for a Service named `sidegate-core`: not ours."""


def overlay_environment(
    tree: Section,
    cls: type[Any],
    service: str,
    environ: Mapping[str, str],
    problems: list[ConfigProblem],
) -> None:
    """Put each `SIDEGATE_<SERVICE>_…` variable into `tree`, over what the file says."""
    prefix = f"SIDEGATE_{service.upper().replace('-', '_')}_"
    known = dict(_variables(cls, "", ()))
    for name in sorted(environ):
        if not name.startswith(prefix):
            continue
        own = name.removeprefix(prefix)
        if own in known:
            _put(tree, known[own], Text(Place(name), environ[name], from_environment=True))
        elif not _SERVICE_LINK.fullmatch(own):
            close = difflib.get_close_matches(own, sorted(known), n=1)
            hint = f"did you mean {prefix}{close[0]}?" if close else "unset it or correct its name"
            problems.append(ConfigProblem(Place(name), "", f"sets no known key; {hint}"))


def _variables(
    cls: type[Any], prefix: str, path: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for field in section_fields(cls):
        name = f"{prefix}{field.key.upper()}"
        inner = section_of(field.type)
        if inner is None:
            yield name, (*path, field.key)
        else:
            yield from _variables(inner, f"{name}__", (*path, field.key))


def _put(tree: Section, path: tuple[str, ...], value: Text) -> None:
    for part in path[:-1]:
        entry = tree.entries.get(part)
        if not isinstance(entry, Section):
            # A section that the file leaves out or leaves empty begins with this variable.
            # One that the file gives another shape is reported when it is built.
            if entry is not None and not (isinstance(entry, Text) and entry.is_null):
                return
            entry = Section(value.place)
            tree.entries[part] = entry
            tree.key_places[part] = value.place
        tree = entry
    tree.entries[path[-1]] = value
    tree.key_places[path[-1]] = value.place
