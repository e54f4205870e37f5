"""A compressed body never expands beyond what its envelope declares."""

import pytest
import zstandard

from log_format.compression import compress, expand
from log_format.envelope import Codec
from log_format.errors import BadBody


def test_a_body_comes_back() -> None:
    body = b"sidegate " * 1000
    stored = compress(body)
    assert len(stored) < len(body)
    assert expand(Codec.ZSTD, stored, len(body)) == body
    assert expand(Codec.NONE, body, len(body)) == body


def test_a_bomb_that_declares_another_size_is_not_expanded() -> None:
    bomb = zstandard.ZstdCompressor(level=3).compress(bytes(200 * 1024 * 1024))
    with pytest.raises(BadBody, match="the envelope 4096"):
        expand(Codec.ZSTD, bomb, 4096)


def test_a_frame_that_holds_more_than_it_declares_is_not_expanded() -> None:
    bomb = bytearray(zstandard.ZstdCompressor(level=3).compress(bytes(200 * 1024 * 1024)))
    assert int.from_bytes(bomb[6:10], "little") == 200 * 1024 * 1024, "RFC 8878, 3.1.1.1.4"
    bomb[6:10] = (100_000).to_bytes(4, "little")
    with pytest.raises(BadBody, match="zstd"):
        expand(Codec.ZSTD, bytes(bomb), 100_000)


def test_a_frame_without_a_declared_size_is_refused() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=False)
    with pytest.raises(BadBody, match="zstd declares"):
        expand(Codec.ZSTD, compressor.compress(b"x" * 100), 100)


@pytest.mark.parametrize(
    "spoil", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b + b, lambda b: b"no"]
)
def test_anything_but_one_whole_zstd_frame_is_refused(spoil: object) -> None:
    stored = compress(b"hello" * 50)
    with pytest.raises(BadBody):
        expand(Codec.ZSTD, spoil(stored), 250)  # type: ignore[operator]
