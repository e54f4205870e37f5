"""Operators: a secret each, in a file that only the gatekeeper's user may read."""

from pathlib import Path

import pytest

from gatekeeper.api.operators import Operators
from hosting.lifecycle import StartError


def add(folder: Path, name: str, secret: str, mode: int = 0o600) -> None:
    path = folder / "operators" / name
    path.write_text(secret)
    path.chmod(mode)


async def test_the_first_operator_is_made_once_with_a_secret_of_its_own(tmp_path: Path) -> None:
    operators = Operators(tmp_path)
    await operators.start()
    path = tmp_path / "operators" / "local"
    secret = path.read_text().strip()
    assert len(secret) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    assert operators.recognise(secret) == "local"
    await Operators(tmp_path).start()
    assert path.read_text().strip() == secret


async def test_where_there_are_operators_none_is_made(tmp_path: Path) -> None:
    (tmp_path / "operators").mkdir()
    add(tmp_path, "anna", "a" * 40)
    await Operators(tmp_path).start()
    assert not (tmp_path / "operators" / "local").exists()


async def test_operators_come_and_go_at_once(tmp_path: Path) -> None:
    operators = Operators(tmp_path)
    await operators.start()
    assert operators.recognise("b" * 40) is None
    add(tmp_path, "ben", "b" * 40 + "\n")
    assert operators.recognise("b" * 40) == "ben"
    (tmp_path / "operators" / "ben").unlink()
    assert operators.recognise("b" * 40) is None


async def test_secrets_that_others_may_read_or_guess_are_not_used(tmp_path: Path) -> None:
    operators = Operators(tmp_path)
    await operators.start()
    add(tmp_path, "open", "c" * 40, 0o644)
    add(tmp_path, "short", "d" * 10)
    add(tmp_path, ".hidden", "e" * 40)
    (tmp_path / "operators" / "binary").write_bytes(b"\xff" * 40)
    for secret in ("c" * 40, "d" * 10, "e" * 40, "", "ÿ" * 40):
        assert operators.recognise(secret) is None


async def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="data: the folder can't be used"):
        await Operators(tmp_path / "file").start()
