"""Derived ids are those that the sidecar shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.parts import Producer
from log_format.sequence import SEQUENCE_MAX
from sidecar.delivery.record_id import derived_id
from spark.derived_ids import derived_ids


def check(first: int, count: int, producer_id: int = 7) -> None:
    part = Producer("orders.eu", 3, producer_id, 2, first, count, 0, 0, bytes(32))
    array = derived_ids(part)
    array.validate(full=True)
    assert array.to_pylist() == [derived_id(part, index) for index in range(count)]


@pytest.mark.parametrize(
    "first",
    [0, 9, 10, 95, 1_000, 19_990, 99_990, 123_456, 10_000_000, 999_999_995, SEQUENCE_MAX - 5],
)
def test_every_number_of_digits_and_the_wrap_are_right(first: int) -> None:
    check(first, 20)


@given(st.integers(0, SEQUENCE_MAX), st.integers(1, 30), st.integers(0, 2**63 - 1))
def test_any_batch_has_the_sidecars_ids(first: int, count: int, producer_id: int) -> None:
    check(first, count, producer_id)
