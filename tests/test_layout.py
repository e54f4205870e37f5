"""The tree is laid out as CONTRIBUTING.md says: one concept a file, one test for it."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("log_format", "hosting", "core_log", "gatekeeper", "sidecar", "spark", "sidegate")
TOP_LEVEL = (
    "pyproject.toml",
    "sidecar",
    "gatekeeper",
    "core_log",
    "tests",
    "deploy",
    "spark",
    "examples",
    "Dockerfile",
    "Makefile",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    ".editorconfig",
    ".pre-commit-config.yaml",
    ".ci/run",
)
LINES_MAX = 400
"""A file above this no longer holds one concept."""
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "base", "tools"}

TESTED_ELSEWHERE = {
    "log_format/errors.py": "tests/log_format/test_frame.py",
    "log_format/limits.py": "tests/log_format/test_envelope.py",
}
"""Modules of plain values, which the test of their user tests too."""


def modules() -> list[Path]:
    return sorted(
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    )


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("needs git and a checkout, to know which files belong to the project")
    return [Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_the_top_level_is_as_agreed(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("module", modules(), ids=str)
def test_every_module_has_a_test_of_its_name(module: Path) -> None:
    if (named := TESTED_ELSEWHERE.get(module.as_posix())) is not None:
        imported = module.with_suffix("").as_posix().replace("/", ".")
        assert imported in (ROOT / named).read_text(), f"{named} no longer uses {imported}"
        return
    expected = ROOT / "tests" / module.parent / f"test_{module.name}"
    assert expected.is_file(), f"write {expected.relative_to(ROOT)}"


@pytest.mark.parametrize("module", modules(), ids=str)
def test_every_module_says_what_it_is_for_and_is_not_too_long(module: Path) -> None:
    source = (ROOT / module).read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(source)), "begin with a docstring"
    assert source.count("\n") <= LINES_MAX, "split it: one concept a file"
    assert module.stem not in VAGUE, "name the concept"


def test_every_package_has_a_docstring_and_is_typed() -> None:
    for package in PACKAGES:
        assert ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())), package
        assert (ROOT / package / "py.typed").exists(), package


@pytest.mark.parametrize("lock", ["runtime.txt", "audit.txt", "dev.txt"])
def test_requirements_are_pinned_by_hash_and_name_no_index(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text()
    assert "://" not in text
    assert "index" not in text
    blocks = re.findall(
        r"^([A-Za-z0-9._-]+(?:\[[^]]*\])?)==(?:.+\\\n)((?:    --hash=.+\n)+)", text, re.MULTILINE
    )
    pinned = re.findall(r"^[A-Za-z0-9._-]+(?:\[[^]]*\])?==", text, re.MULTILINE)
    assert len(blocks) == len(pinned) > 10


def test_private_state_is_ignored_by_git_and_docker() -> None:
    for name in (".gitignore", ".dockerignore"):
        lines = (ROOT / name).read_text().splitlines()
        assert {".sidegate/", ".venv/"} <= set(lines), name


def test_no_file_names_a_path_of_one_machine() -> None:
    personal = re.compile(r"(?<![\w.$}/])/(?:home|Users|root|work)/[a-z]")
    for path in tracked_files():
        if path.suffix in {".py", ".md", ".toml", ".yaml", ".yml", ".txt", ".sh", ".json", ""}:
            text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
            assert not personal.search(text), path
