"""The docs fail when they rot: links lead somewhere, named files exist, pictures are current."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
NAMED_PATH = re.compile(
    r"`((?:log_format|hosting|core_log|gatekeeper|sidecar|spark|sidegate|tests|deploy|examples|docs"
    r"|bench|requirements)/[\w./-]*)`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_named_paths_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for named in NAMED_PATH.findall(text):
        assert (ROOT / named).exists(), f"{page.name} names {named}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_no_line_of_a_file(page: Path) -> None:
    assert not re.search(r"\.py:\d+", page.read_text(encoding="utf-8"))


def test_the_picture_is_drawn_from_its_text() -> None:
    draw = runpy.run_path(str(ROOT / "docs" / "draw_mesh.py"))["draw"]
    text = (ROOT / "docs" / "mesh.txt").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "mesh.svg").read_text(encoding="utf-8") == draw(text)


def test_every_make_target_that_the_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(
        re.findall(r"[`\n]make ([a-z-]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    )
    assert named <= targets
