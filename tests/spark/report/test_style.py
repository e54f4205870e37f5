"""The page's style loads nothing."""

from spark.report.style import CSS


def test_the_style_is_self_contained() -> None:
    for word in ("url(", "@import", "</", "http"):
        assert word not in CSS
