"""A service gets one frozen object, or every reason why not."""

import dataclasses
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosting.config import ConfigError, check_config, known_keys, load_config
from hosting.environment import Environment, development_identity_problems
from hosting.units import Address

LISTEN = Address("127.0.0.1", 9000)


@dataclasses.dataclass(frozen=True)
class Config:
    data: Path
    environment: Environment = "production"
    listen: Address = LISTEN
    admit: tuple[str, ...] = ()

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from development_identity_problems(self.environment, "admit", *self.admit)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.yaml"


def load(path: Path | None, **environ: str) -> Config:
    return load_config(Config, service="demo", path=path, environ=environ)


def test_relative_paths_begin_at_the_files_folder(path: Path) -> None:
    path.write_text("data: data/demo\nlisten: unix:run/demo.sock\n")
    config = load(path)
    assert config.data == path.parent / "data/demo"
    assert config.listen.path == path.parent / "run/demo.sock"


def test_a_relative_file_name_does_not_make_relative_paths(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text("data: x\n")
    monkeypatch.chdir(path.parent)
    assert load(Path("demo.yaml")).data == path.parent / "x"


def test_the_object_is_frozen(path: Path) -> None:
    path.write_text("data: x\n")
    with pytest.raises(dataclasses.FrozenInstanceError):
        load(path).data = Path("y")  # type: ignore[misc]


def test_json_works(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"data": "x", "listen": "127.0.0.1:1"}')
    assert load(path).listen == Address("127.0.0.1", 1)


def test_no_file_is_needed_where_the_environment_says_it_all() -> None:
    assert load(None, SIDEGATE_DEMO_DATA="/var/x").data == Path("/var/x")


def test_problems_are_sorted_by_their_place_and_say_all(path: Path) -> None:
    path.write_text("listen: 1\ndata: x\nadmit:\n- 1\nenvironment: staging\n")
    with pytest.raises(ConfigError) as caught:
        load(path, SIDEGATE_DEMO_DATTA="x")
    assert str(caught.value).splitlines() == [
        f"{path}:1: listen: must be host:port or unix:path, such as 127.0.0.1:9000, not '1'",
        f"{path}:5: environment: must be one of development, production, not 'staging'",
        "SIDEGATE_DEMO_DATTA: sets no known key; did you mean SIDEGATE_DEMO_DATA?",
    ]


def test_a_file_that_can_not_be_read_is_the_only_problem(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert len(caught.value.problems) == 1


def test_a_broken_file_is_not_blamed_for_missing_keys(path: Path) -> None:
    path.write_text("data: [\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert [problem.key for problem in caught.value.problems] == [""]


def test_the_development_domain_needs_the_development_environment(path: Path) -> None:
    path.write_text("data: x\nadmit: ['spiffe://sidegate-dev/core']\n")
    with pytest.raises(ConfigError, match=r"demo.yaml:2: admit: .*environment: development"):
        load(path)
    path.write_text("data: x\nadmit: ['spiffe://sidegate-dev/core']\nenvironment: development\n")
    assert load(path).environment == "development"


def test_a_class_that_could_change_is_refused() -> None:
    @dataclasses.dataclass
    class Loose:
        key: str = ""

    with pytest.raises(TypeError, match="frozen"):
        load_config(Loose, service="demo", path=None, environ={})


def test_check_config_says_ok_and_exits_0(path: Path) -> None:
    path.write_text("data: x\n")
    out = io.StringIO()
    assert check_config(Config, service="demo", path=path, environ={}, out=out) == 0
    assert out.getvalue() == "ok\n"


def test_check_config_lists_all_problems_and_exits_2(path: Path) -> None:
    path.write_text("dat: x\nenvironment: x\n")
    out = io.StringIO()
    assert check_config(Config, service="demo", path=path, environ={}, out=out) == 2
    assert len(out.getvalue().splitlines()) == 3


def test_the_keys_can_be_listed_for_documentation() -> None:
    assert list(known_keys(Config)) == ["data", "environment", "listen", "admit"]


@pytest.mark.parametrize("heavy", ["aiohttp", "cryptography", "prometheus_client", "uvloop"])
def test_reading_a_configuration_imports_nothing_heavy(heavy: str) -> None:
    code = f"import sys, hosting.config, hosting.environment; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
