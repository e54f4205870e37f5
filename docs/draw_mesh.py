"""Draws docs/mesh.svg from the text in docs/mesh.txt: `python docs/draw_mesh.py`.

Each line of the text is `left -> right : label` (an arrow), `name = title | subtitle` (a box), or
a comment. Boxes stand in the order of their lines; arrows between neighbours run above (to the
right) or below (to the left).
"""

import re
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
BOX_WIDTH, BOX_HEIGHT, GAP, TOP, LEFT = 160, 74, 165, 20, 20
ARROW = re.compile(r"(\w+) -> (\w+) : (.+)")
BOX = re.compile(r"(\w+) = ([^|]+)\|(.+)")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2933}.t{font-weight:600;font-size:15px}"
    ".s{fill:#52606d;font-size:11px}rect{fill:#f5f7fa;stroke:#334e68;stroke-width:1.5}"
    "line{stroke:#334e68;stroke-width:1.5}.l{font-size:11px}"
)


def draw(text: str) -> str:
    """The picture of `text` as SVG."""
    names: dict[str, int] = {}
    shapes: list[str] = []
    for line in text.splitlines():
        if box := BOX.fullmatch(line.strip()):
            names[box[1]] = len(names)
            shapes += _box(names[box[1]], box[2].strip(), box[3].strip())
        elif arrow := ARROW.fullmatch(line.strip()):
            shapes += _arrow(names[arrow[1]], names[arrow[2]], arrow[3].strip())
    width = LEFT * 2 + len(names) * BOX_WIDTH + (len(names) - 1) * GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP * 2 + BOX_HEIGHT}"'
        ' role="img" aria-label="The Sidegate mesh">'
    )
    marker = (
        '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#334e68"/></marker></defs>'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", marker, *shapes, "</svg>", ""])


def _box(place: int, title: str, subtitle: str) -> list[str]:
    x = LEFT + place * (BOX_WIDTH + GAP)
    middle = x + BOX_WIDTH // 2
    return [
        f'<rect x="{x}" y="{TOP}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8"/>',
        f'<text class="t" x="{middle}" y="{TOP + 33}" text-anchor="middle">{escape(title)}</text>',
        (
            f'<text class="s" x="{middle}" y="{TOP + 54}" text-anchor="middle">'
            f"{escape(subtitle)}</text>"
        ),
    ]


def _arrow(start: int, end: int, label: str) -> list[str]:
    forward = end > start
    y = TOP + (22 if forward else BOX_HEIGHT - 18)
    left, right = sorted((start, end))
    x1 = LEFT + left * (BOX_WIDTH + GAP) + BOX_WIDTH + 4
    x2 = LEFT + right * (BOX_WIDTH + GAP) - 4
    begin, stop = (x1, x2) if forward else (x2, x1)
    words = y - 8 if forward else y + 18
    return [
        f'<line x1="{begin}" y1="{y}" x2="{stop}" y2="{y}" marker-end="url(#a)"/>',
        (
            f'<text class="l" x="{(x1 + x2) // 2}" y="{words}" text-anchor="middle">'
            f"{escape(label)}</text>"
        ),
    ]


if __name__ == "__main__":
    picture = draw((HERE / "mesh.txt").read_text(encoding="utf-8"))
    (HERE / "mesh.svg").write_text(picture, encoding="utf-8")
    sys.stdout.write("wrote docs/mesh.svg\n")
