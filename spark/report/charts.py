"""Charts as inline SVG: no script, no file besides the page. Every text in them is escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH: Final = 860
HEIGHT: Final = 220
_LEFT: Final = 56
_BOTTOM: Final = 26
_TOP: Final = 10
_BAR_HEIGHT: Final = 24
_NAME_WIDTH: Final = 250
NAME_CHARS_MAX: Final = 38
"""Characters of a name that fit beside a bar; the whole name is in its title."""


def stacked_bars(steps: Sequence[str], series: Mapping[str, Sequence[int]], *, label: str) -> str:
    """Bars over time, one stack per step, one colour per series (classes c0, c1, …)."""
    totals = [sum(values[n] for values in series.values()) for n in range(len(steps))]
    top = max(totals, default=0)
    if not top:
        return ""
    inner_w, inner_h = WIDTH - _LEFT - 8, HEIGHT - _TOP - _BOTTOM
    slot = inner_w / len(steps)
    parts = [_svg(HEIGHT, label)]
    for share in (0.0, 0.5, 1.0):
        y = _TOP + inner_h * (1 - share)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(
            f'<text class="axis" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{short_number(top * share)}</text>"
        )
    for number, step in enumerate(steps):
        y = float(_TOP + inner_h)
        x = _LEFT + slot * number
        for colour, (name, values) in enumerate(series.items()):
            if values[number]:
                height = inner_h * values[number] / top
                y -= height
                parts.append(
                    f'<rect class="c{colour}" x="{x + slot * 0.08:.2f}" y="{y:.2f}"'
                    f' width="{max(slot * 0.84, 0.5):.2f}" height="{height:.2f}">'
                    f"<title>{escape(step)}: {escape(name)} {values[number]:,}</title></rect>"
                )
    marks = sorted({0, len(steps) // 2, len(steps) - 1})
    for number in marks:
        anchor = "start" if number == 0 else "end" if number == len(steps) - 1 else "middle"
        x = _LEFT + slot * (number + (0 if number == 0 else 1 if anchor == "end" else 0.5))
        parts.append(
            f'<text class="axis" x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">'
            f"{escape(steps[number])}</text>"
        )
    parts.append("</svg>")
    legend = "".join(
        f'<span><i class="c{colour}"></i>{escape(name)}</span>'
        for colour, name in enumerate(series)
    )
    return f'{"".join(parts)}<p class="legend">{legend}</p>'


def bars(values: Sequence[tuple[str, int]], *, label: str, colour: int = 0) -> str:
    """Horizontal bars, the longest first as given."""
    top = max((value for _, value in values), default=0)
    if not top:
        return ""
    height = _BAR_HEIGHT * len(values) + 4
    parts = [_svg(height, label)]
    for number, (name, value) in enumerate(values):
        y = number * _BAR_HEIGHT + 2
        length = (WIDTH - _NAME_WIDTH - 90) * value / top
        shown = name if len(name) <= NAME_CHARS_MAX else name[: NAME_CHARS_MAX - 1] + "…"
        parts.append(
            f"<g><title>{escape(name)}: {value:,}</title>"
            f'<text class="name" x="{_NAME_WIDTH - 10}" y="{y + 15}" text-anchor="end">'
            f"{escape(shown)}</text>"
            f'<rect class="c{colour}" x="{_NAME_WIDTH}" y="{y + 3}" rx="2"'
            f' width="{max(length, 1):.1f}" height="{_BAR_HEIGHT - 8}"/>'
            f'<text class="axis" x="{_NAME_WIDTH + max(length, 1) + 6:.1f}" y="{y + 15}">'
            f"{short_number(value)}</text></g>"
        )
    parts.append("</svg>")
    return "".join(parts)


def short_number(value: float) -> str:
    """1,234,567 as 1.2 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def _svg(height: int, label: str) -> str:
    named = f'role="img" aria-label="{escape(label)}"'
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" {named}>'
