"""Durations, sizes and addresses mean what people expect them to mean."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.units import PORT_MAX, Address, parse_bytes, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30.0),
        ("200ms", 0.2),
        ("15m", 900.0),
        ("1.5h", 5400.0),
        ("7d", 604800.0),
        ("250us", 0.00025),
        (" 5 s ", 5.0),
        ("0", 0.0),
        (30, 30.0),
        (0.5, 0.5),
    ],
)
def test_a_duration_is_a_number_with_or_without_its_unit(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "-1", "5 weeks", "1e3", "nan", "inf", "1:30", -1, float("nan"), float("inf")]
)
def test_what_is_no_duration_is_refused_with_an_example(text: str | float) -> None:
    with pytest.raises(ValueError, match=r"200ms"):
        parse_duration(text)


def test_a_duration_beyond_all_clocks_is_refused() -> None:
    with pytest.raises(ValueError, match="clock"):
        parse_duration("9" * 400)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("2MiB", 2 * 1024 * 1024),
        ("1.5KiB", 1536),
        ("64kB", 64_000),
        ("3 GB", 3_000_000_000),
        ("1TiB", 2**40),
        (7, 7),
    ],
)
def test_a_size_tells_thousands_from_kibibytes(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "-1", "2M", "MiB", "1e6", "0x10", -5])
def test_what_is_no_size_is_refused_with_an_example(text: str | int) -> None:
    with pytest.raises(ValueError, match=r"2MiB"):
        parse_bytes(text)


def test_a_part_of_a_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="whole number of bytes"):
        parse_bytes("0.5")


@given(st.integers(min_value=0, max_value=2**62))
def test_every_number_of_bytes_reads_as_itself(size: int) -> None:
    assert parse_bytes(str(size)) == parse_bytes(f"{size}B") == size


@given(st.text())
def test_no_text_makes_a_parser_fail_in_another_way_than_it_says(text: str) -> None:
    for parse in (parse_duration, parse_bytes, Address.parse):
        with suppress(ValueError):
            parse(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9000", Address("127.0.0.1", 9000)),
        ("localhost:0", Address("localhost", 0)),
        (":8443", Address("", 8443)),
        ("[::1]:9000", Address("::1", 9000)),
        ("unix:run/core.sock", Address(path=Path("run/core.sock"))),
    ],
)
def test_an_address_reads_and_writes_as_itself(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "9000", "host", "host:", "host:x", "host:-1", "::1:9000", "[::1:9000", "unix:"),
        *("a b:1", "host:65536", "http://host:80", "[host]:80", "host:²"),
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must|port"):
        Address.parse(text)


@given(st.ip_addresses(), st.integers(min_value=0, max_value=PORT_MAX))
def test_every_ip_address_and_port_survives_the_round_trip(host: object, port: int) -> None:
    address = Address(str(host), port)
    assert Address.parse(str(address)) == address


def test_an_address_is_either_a_port_or_a_socket_file() -> None:
    with pytest.raises(ValueError, match="either"):
        Address("127.0.0.1")
    with pytest.raises(ValueError, match="either"):
        Address("127.0.0.1", 1, Path("x"))


def test_a_relative_socket_file_begins_at_the_folder_given() -> None:
    folder = Path("/etc/sidegate")
    assert Address.parse("unix:x.sock").relative_to(folder).path == folder / "x.sock"
    assert Address.parse("unix:/run/x.sock").relative_to(folder).path == Path("/run/x.sock")
    assert Address.parse("a:1").relative_to(folder) == Address.parse("a:1")
