"""A body is compressed where that gains enough, and data that never shrinks is left alone."""

import random

import pytest

from log_format.compression import expand
from log_format.envelope import Codec
from sidecar.publish.compressor import BODY_BYTES_MIN, PAUSE_BATCHES_MAX, Compressor

TEXT = b'{"order_id":101,"currency":"EUR"}' * 2000
NOISE = random.Random(1).randbytes(BODY_BYTES_MIN)
ALMOST = NOISE[:52_000] + bytes(14_000)
"""Shrinks by less than a third."""


@pytest.mark.parametrize("mode", ["auto", "zstd"])
def test_a_body_that_shrinks_is_compressed_and_comes_back(mode):
    codec, stored = Compressor(mode).pack(TEXT)
    assert codec is Codec.ZSTD
    assert len(stored) < len(TEXT) / 10
    assert expand(codec, stored, len(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("mode", "body"),
    [("none", TEXT), ("auto", TEXT[: BODY_BYTES_MIN - 1]), ("zstd", TEXT[: BODY_BYTES_MIN - 1])],
)
def test_where_it_is_off_or_the_body_is_small_it_goes_as_it_is(mode, body):
    assert Compressor(mode).pack(body) == (Codec.NONE, body)


@pytest.mark.parametrize("mode", ["auto", "zstd"])
def test_a_body_that_does_not_shrink_goes_as_it_is(mode):
    assert Compressor(mode).pack(NOISE) == (Codec.NONE, NOISE)


def test_what_shrinks_a_little_is_compressed_only_where_that_was_asked_for():
    assert Compressor("auto").pack(ALMOST)[0] is Codec.NONE
    assert Compressor("zstd").pack(ALMOST)[0] is Codec.ZSTD


def tries(compressor, batches):
    """After so many bodies of noise: how many of text until one is compressed."""
    for _ in range(batches):
        compressor.pack(NOISE)
    for waited in range(2 * PAUSE_BATCHES_MAX):
        if compressor.pack(TEXT)[0] is Codec.ZSTD:
            return waited
    return None


def test_each_try_in_vain_doubles_the_pause_up_to_its_limit():
    assert tries(Compressor("auto"), 1) == 1
    # The second try comes behind a pause of one, the third behind one of two.
    assert tries(Compressor("auto"), 3) == 2
    assert tries(Compressor("auto"), 6) == 4
    longest = max(tries(Compressor("auto"), batches) for batches in range(1, 400))
    assert longest == PAUSE_BATCHES_MAX


def test_one_that_gains_ends_the_pauses():
    compressor = Compressor("auto")
    tries(compressor, 300)
    assert compressor.pack(TEXT)[0] is Codec.ZSTD
    assert tries(compressor, 1) == 1


def test_where_it_was_asked_for_every_body_is_tried():
    compressor = Compressor("zstd")
    assert [tries(compressor, 1) for _ in range(10)] == [0] * 10
