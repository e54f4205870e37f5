"""Charts are sound XML with escaped text."""

from xml.etree import ElementTree

from spark.report.charts import bars, short_number, stacked_bars

EVIL = "<script>alert('x')</script>\"&"


def parsed(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{chart}</div>")  # noqa: S314


def test_a_stack_has_a_rectangle_for_every_value_that_is_not_zero() -> None:
    chart = stacked_bars(["a", "b"], {"x": [1, 0], EVIL: [2, 3]}, label=EVIL)
    assert len(list(parsed(chart).iter("rect"))) == 3
    assert "<script>" not in chart


def test_bars_are_as_long_as_their_values() -> None:
    chart = bars([("big", 200), (EVIL * 9, 100)], label="l")
    lengths = [float(rect.attrib["width"]) for rect in parsed(chart).iter("rect")]
    assert lengths[0] == 2 * lengths[1]
    assert "<script>" not in chart


def test_nothing_makes_no_chart() -> None:
    assert stacked_bars([], {}, label="") == bars([], label="") == ""


def test_numbers_are_short() -> None:
    assert [short_number(n) for n in (0, 0.5, 999, 1000, 1_250_000, 3e9)] == [
        "0", "0.5", "999", "1 k", "1.2 M", "3 G",
    ]  # fmt: skip
