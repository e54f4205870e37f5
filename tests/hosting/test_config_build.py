"""Sections are built whole or not at all, and every problem has its key and place."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pytest

from hosting.config_build import FAILED, Builder
from hosting.config_tree import ConfigProblem, Section, parse_tree
from hosting.units import ByteSize, Seconds


@dataclass(frozen=True)
class Log:
    durability: Literal["fsync", "os"] = "fsync"
    segment_bytes: ByteSize = 1024
    interval: Seconds = 1.0

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.segment_bytes < 16:
            yield "segment_bytes", "must be at least 16"


@dataclass(frozen=True)
class Domain:
    bundle: Path
    crl: Literal["off", "required"] = "off"


@dataclass(frozen=True)
class Config:
    data: Path
    log: Log = field(default_factory=lambda: Log(interval=9.0))
    admit: tuple[str, ...] = ()
    domains: dict[str, Domain] = field(default_factory=dict)
    extra: Log | None = None
    either: int | bool = 0
    labels: frozenset[str] = frozenset()
    fixed: Mapping[str, int] = field(default_factory=dict)

    def problems(self) -> Iterator[tuple[str, str]]:
        if "nobody" in self.admit:
            yield "admit", "must not admit nobody"
        if self.log.interval > 100:
            yield "log.interval", "must be at most 100"


def build(text: str) -> tuple[Any, list[str]]:
    tree, found = parse_tree(text.encode(), "x.yaml")
    assert isinstance(tree, Section)
    problems: list[ConfigProblem] = list(found)
    value = Builder(Path("/etc"), problems).section(Config, tree, "")
    return value, [str(problem) for problem in problems]


def test_a_whole_configuration_is_built() -> None:
    config, problems = build(
        "data: d\nlog: {durability: os, segment_bytes: 2KiB}\nadmit: [a, b]\n"
        "domains:\n  one: {bundle: one.pem}\n  two: {bundle: two.pem, crl: required}\n"
        "extra:\neither: yes\nlabels: [x, x]\nfixed: {a: 1}\n"
    )
    assert problems == []
    assert config.log == Log("os", 2048, 9.0)
    assert config.domains["two"] == Domain(Path("/etc/two.pem"), "required")
    assert (config.admit, config.extra, config.either) == (("a", "b"), None, True)
    assert config.labels == {"x"}
    assert isinstance(config.fixed, MappingProxyType)


def test_keys_that_are_left_out_keep_the_defaults_of_their_section() -> None:
    config, _ = build("data: d\nlog: {durability: os}\n")
    assert config.log.interval == 9.0
    assert build("data: d\nlog:\n")[0].log.interval == 9.0


def test_off_is_a_word_where_a_word_is_wanted() -> None:
    config, problems = build("data: d\ndomains: {one: {bundle: b, crl: off}}\n")
    assert problems == []
    assert config.domains["one"].crl == "off"


def test_all_problems_come_at_once_each_with_key_and_line() -> None:
    value, problems = build(
        "log:\n  durability: sometimes\n  segment_bites: 1\nadmit: x\n"
        "domains:\n  one:\n    crl: off\n"
    )
    assert value is FAILED
    assert problems == [
        "x.yaml: data: is missing and must be the path of a file or folder",
        "x.yaml:3: log.segment_bites: is not a known key; did you mean segment_bytes?",
        "x.yaml:2: log.durability: must be one of fsync, os, not 'sometimes'",
        "x.yaml:4: admit: must be a list, each a text",
        "x.yaml:6: domains.one.bundle: is missing and must be the path of a file or folder",
    ]


def test_an_unknown_key_that_is_like_no_other_lists_those_there_are() -> None:
    _, problems = build("data: d\nlog:\n  zzz: 1\n")
    assert problems == [
        "x.yaml:3: log.zzz: is not a known key; the keys are durability, interval, segment_bytes"
    ]


def test_a_hook_of_a_section_reports_with_the_line_of_its_key() -> None:
    value, problems = build("data: d\nlog:\n  interval: 5\n  segment_bytes: 1\n")
    assert value is FAILED
    assert problems == ["x.yaml:4: log.segment_bytes: must be at least 16"]


def test_a_hook_may_name_a_key_of_an_inner_section() -> None:
    _, problems = build("data: d\nlog:\n  durability: os\n  interval: 200\nadmit: [nobody]\n")
    assert problems == [
        "x.yaml:5: admit: must not admit nobody",
        "x.yaml:4: log.interval: must be at most 100",
    ]


def test_a_hook_that_names_a_key_left_out_reports_at_the_nearest_section() -> None:
    @dataclass(frozen=True)
    class Strict:
        data: str = ""

        def problems(self) -> Iterator[tuple[str, str]]:
            yield "data", "must be set"

    problems: list[ConfigProblem] = []
    tree, _ = parse_tree(b"{}", "x.yaml")
    assert tree is not None
    assert Builder(Path(), problems).section(Strict, tree, "") is FAILED
    assert str(problems[0]) == "x.yaml: data: must be set"


def test_a_value_that_the_dataclass_itself_refuses_is_a_problem() -> None:
    @dataclass(frozen=True)
    class Picky:
        size: int

        def __post_init__(self) -> None:
            raise ValueError("never right")

    problems: list[ConfigProblem] = []
    tree, _ = parse_tree(b"size: 1", "x.yaml")
    assert tree is not None
    assert Builder(Path(), problems).section(Picky, tree, "") is FAILED
    assert str(problems[0]) == "x.yaml: never right"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data: [a]", "x.yaml:1: data: must be the path of a file or folder, not a list or a map"),
        ("data:", "x.yaml:1: data: is empty and must be the path of a file or folder"),
        ("data: d\nlog: 5", "x.yaml:2: log: must be a map of keys"),
        ("data: d\ndomains: [a]", "x.yaml:2: domains: must be a map of names"),
        ("data: d\nadmit:\n- a\n- [b]", "x.yaml:4: admit[1]: must be a text, not a list"),
        ("data: d\neither: maybe", "x.yaml:2: either: must be a whole number or true or false"),
    ],
)
def test_a_value_of_another_shape_is_refused(text: str, said: str) -> None:
    value, problems = build(text)
    assert value is FAILED
    assert len(problems) == 1
    assert problems[0].startswith(said)
