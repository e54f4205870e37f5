"""Which Java is taken, and that the bundled one really starts."""

import subprocess
from pathlib import Path

import pytest

from spark.java import DROPPED, NoJava, ask_version, find_java, major_version, write_wrapper

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (JAVA_17, 17),
        ('java version "1.8.0_402"\n', 8),
        ('openjdk version "25" 2025-09-16 LTS\n', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.\n", None),
        ("", None),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(text: str, expected: int | None) -> None:
    assert major_version(text) == expected


def fake_java(folder: Path) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return folder


class TestChoice:
    @pytest.fixture
    def homes(self, tmp_path: Path) -> dict[str, Path]:
        return {name: fake_java(tmp_path / name) for name in ("named", "on_path", "bundled")}

    def choose(self, homes: dict[str, Path], versions: dict[str, int | None]) -> tuple[str, bool]:
        named, on_path = homes["named"], homes["on_path"]
        java = find_java(
            {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")},
            named.parent / "scratch",
            ask=lambda program: versions[program.parent.parent.name],
            bundled_home=lambda: homes["bundled"] if "bundled" in versions else None,
        )
        return java.program.parent.parent.name, java.bundled

    def test_java_home_comes_first(self, homes: dict[str, Path]) -> None:
        assert self.choose(homes, {"named": 17, "on_path": 21}) == ("named", False)

    def test_one_that_is_too_old_or_does_not_run_is_passed_over(
        self, homes: dict[str, Path]
    ) -> None:
        assert self.choose(homes, {"named": 11, "on_path": 21}) == ("on_path", False)
        assert self.choose(homes, {"named": None, "on_path": 17}) == ("on_path", False)

    def test_the_bundled_one_comes_last_and_through_the_wrapper(
        self, homes: dict[str, Path]
    ) -> None:
        versions = {"named": 11, "on_path": None, "bundled": 21}
        assert self.choose(homes, versions) == ("bundled", True)

    def test_none_at_all_says_what_was_found_and_what_to_do(self, homes: dict[str, Path]) -> None:
        with pytest.raises(NoJava, match=r"JAVA_HOME has Java 11; PATH has none.*make audit"):
            self.choose(homes, {"named": 11, "on_path": None})

    def test_an_empty_environment_is_no_accident(self, tmp_path: Path) -> None:
        with pytest.raises(NoJava, match="neither JAVA_HOME nor PATH names one"):
            find_java({}, tmp_path, ask=lambda program: None, bundled_home=lambda: None)


def test_a_program_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert ask_version(tmp_path / "java") is None
    assert ask_version(fake_java(tmp_path / "home") / "bin" / "java") is None


def test_the_wrapper_drops_one_argument_and_passes_all_others_as_they_are(tmp_path: Path) -> None:
    echo = tmp_path / "a folder's" / "java"
    echo.parent.mkdir()
    echo.write_text("#!/bin/sh\nfor each; do printf '<%s>' \"$each\"; done\n")
    echo.chmod(0o755)
    program = write_wrapper(echo, tmp_path / "scratch") / "bin" / "java"
    given = ["-cp", "a b:*", DROPPED, "", "--add-modules=other", "$HOME", "-version"]
    answer = subprocess.run([program, *given], capture_output=True, text=True, check=True)
    kept = [argument for argument in given if argument != DROPPED]
    assert answer.stdout == "".join(f"<{argument}>" for argument in kept)


def test_the_bundled_java_starts_with_the_arguments_that_spark_gives(tmp_path: Path) -> None:
    java = find_java({"PATH": ""}, tmp_path)
    assert java.bundled
    assert java.version >= 17
    answer = subprocess.run(
        [java.home / "bin" / "java", DROPPED, "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert major_version(answer.stderr) == java.version
