"""The worked example in docs/format.md is byte for byte what the code writes."""

import re
from pathlib import Path

from log_format.body import encode_body
from log_format.envelope import add_provenance, add_stamp, decode_envelope
from log_format.frame import decode_frame, encode_frame
from log_format.leaf import leaf_hash
from log_format.parts import Producer, Provenance, Stamp

PAGE = Path(__file__).parents[2] / "docs" / "format.md"
NEW_YEAR_US = 1_767_225_600_000_000


def example_in_the_page() -> bytes:
    lines = re.findall(r"^[0-9a-f]{4}  ((?:[0-9a-f]{2} ?)+)$", PAGE.read_text(), re.MULTILINE)
    return bytes.fromhex("".join(lines))


def test_the_worked_example_is_what_the_code_writes() -> None:
    body = encode_body([NEW_YEAR_US], [b'{"order_id":101}'], keys=[b"k"])
    producer = Producer("orders", 0, 1, 0, 0, 1, NEW_YEAR_US, NEW_YEAR_US, bytes(32))
    sent = encode_frame(producer, body)
    provenance = Provenance(
        principal="billing",
        issuer="corp",
        client_id="billing",
        thumbprint=b"\x11" * 32,
        token_id="t-1",
        decision_id=b"\x22" * 16,
        policy_hash=b"\x33" * 32,
        rule="orders",
        gatekeeper_id="gk-1",
        received_us=NEW_YEAR_US + 500,
        signature=b"\x44" * 64,
    )
    sent_envelope = decode_envelope(sent).raw
    envelope = add_stamp(
        add_provenance(sent_envelope, provenance), Stamp(5, 7, NEW_YEAR_US + 1000, 4)
    )
    assert example_in_the_page() == envelope + sent[len(sent_envelope) :]


def test_the_worked_example_reads_as_the_page_says() -> None:
    frame = decode_frame(example_in_the_page())
    frame.check_hash()
    columns = frame.columns()
    assert (columns.key[0], columns.value[0]) == (b"k", b'{"order_id":101}')
    assert leaf_hash(frame.envelope.raw).hex() in PAGE.read_text()
