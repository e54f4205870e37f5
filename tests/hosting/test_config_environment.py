"""Environment variables override keys, and none of ours goes unnoticed."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from hosting.config import ConfigError, load_config
from hosting.units import Address, Seconds

LISTEN = Address("127.0.0.1", 1)


@dataclass(frozen=True)
class Log:
    durability: str = "fsync"
    interval: Seconds = 1.0


@dataclass(frozen=True)
class Config:
    listen: Address = LISTEN
    admit: tuple[str, ...] = ()
    log: Log = Log()
    spare: Log | None = None
    names: dict[str, str] | None = None
    note: str | None = "n"
    data: Path = Path("data")


def load(**environ: str) -> Config:
    return load_config(Config, service="core", path=None, environ=environ)


def problems_of(path: Path | None = None, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(Config, service="core", path=path, environ=environ)
    return [str(problem) for problem in caught.value.problems]


def test_a_variable_sets_a_key_with_the_keys_own_type() -> None:
    config = load(SIDEGATE_CORE_LISTEN="[::1]:5", SIDEGATE_CORE_LOG__INTERVAL="2m")
    assert config.listen == Address("::1", 5)
    assert config.log == Log("fsync", 120.0)


def test_a_variable_beats_the_file_and_leaves_its_other_keys(tmp_path: Path) -> None:
    path = tmp_path / "core.yaml"
    path.write_text("log: {durability: os, interval: 5}\nadmit: [a]\n")
    environ = {"SIDEGATE_CORE_LOG__DURABILITY": "interval", "SIDEGATE_CORE_ADMIT": "b, c"}
    config = load_config(Config, service="core", path=path, environ=environ)
    assert config.log == Log("interval", 5.0)
    assert config.admit == ("b", "c")


def test_lists_are_separated_by_commas_and_empty_is_an_empty_list() -> None:
    assert load(SIDEGATE_CORE_ADMIT="a,b ,c").admit == ("a", "b", "c")
    assert load(SIDEGATE_CORE_ADMIT="").admit == ()


def test_an_empty_text_takes_an_optional_key_away() -> None:
    assert load(SIDEGATE_CORE_NOTE="").note is None


def test_a_section_that_the_file_leaves_out_or_empty_can_begin_in_the_environment(
    tmp_path: Path,
) -> None:
    assert load(SIDEGATE_CORE_SPARE__DURABILITY="os").spare == Log("os")
    path = tmp_path / "core.yaml"
    path.write_text("spare:\n")
    environ = {"SIDEGATE_CORE_SPARE__DURABILITY": "os"}
    assert load_config(Config, service="core", path=path, environ=environ).spare == Log("os")


def test_a_section_that_the_file_gives_another_shape_stays_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "core.yaml"
    path.write_text("log: 5\n")
    found = problems_of(path, SIDEGATE_CORE_LOG__DURABILITY="os")
    assert found == [f"{path}:1: log: must be a map of keys"]


def test_a_misspelt_variable_fails_and_the_nearest_is_named() -> None:
    assert problems_of(SIDEGATE_CORE_LOG__DURABILTY="os") == [
        (
            "SIDEGATE_CORE_LOG__DURABILTY: sets no known key; "
            "did you mean SIDEGATE_CORE_LOG__DURABILITY?"
        )
    ]
    assert problems_of(SIDEGATE_CORE_QQQQQQ="1") == [
        "SIDEGATE_CORE_QQQQQQ: sets no known key; unset it or correct its name"
    ]


def test_a_bad_value_is_reported_with_the_name_of_its_variable() -> None:
    assert problems_of(SIDEGATE_CORE_LOG__INTERVAL="soon") == [
        (
            "SIDEGATE_CORE_LOG__INTERVAL: log.interval: must be a duration such as 30, 200ms, "
            "15m, 2h or 7d, not 'soon'"
        )
    ]


def test_a_map_of_names_is_for_the_file() -> None:
    assert problems_of(SIDEGATE_CORE_NAMES="a=b") == [
        "SIDEGATE_CORE_NAMES: names: is a map of names, which only the file can set"
    ]


def test_variables_of_other_services_and_programs_are_not_ours() -> None:
    config = load(SIDEGATE_SIDECAR_LISTEN="x", SIDEGATE_HOME="y", PATH="z", SIDEGATE_CORELISTEN="w")
    assert config == load()


@pytest.mark.parametrize(
    "name",
    [
        *("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTPS", "PORT", "PORT_7443_TCP_ADDR"),
        *("HEADLESS_SERVICE_HOST", "HEADLESS_PORT_7443_TCP"),
    ],
)
def test_what_kubernetes_sets_for_a_service_of_our_name_is_not_ours(name: str) -> None:
    assert load(**{f"SIDEGATE_CORE_{name}": "tcp://10.0.0.1:7443"}) == load()
