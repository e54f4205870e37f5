"""The lines that are measured are what the bar asks for."""

import json

from bench.sidecar_lines import LINE_BYTES, orders


def test_every_line_is_json_of_90_bytes_and_no_two_are_alike() -> None:
    found = orders(5000)
    assert {len(line) for line in found} == {LINE_BYTES} == {90}
    assert len(set(found)) == 5000
    assert all(b"\n" not in line and json.loads(line)["currency"] == "EUR" for line in found)
