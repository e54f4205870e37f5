"""The file of witnesses' keys: read whole, or refused with the line that is wrong."""

from pathlib import Path

import pytest

from core_log.tree.witness_keys import WitnessKeysUnusable, load_witness_keys
from log_format.note import SignatureType, VerifierKey

WITNESS = VerifierKey("gk-1", SignatureType.COSIGNATURE_V1, bytes(32))
CORE = VerifierKey("sidegate/00", SignatureType.ED25519, bytes(32))


def test_no_file_is_no_keys_and_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    assert load_witness_keys(None) == []
    path = tmp_path / "witnesses"
    path.write_text(f"# ours\n\n{WITNESS}\n")
    assert load_witness_keys(path) == [WITNESS]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no key"),
        ("rubbish\n", "witnesses:1: key: a vkey has the form"),
        (f"{WITNESS}\n{CORE}\n", "witnesses:2: sidegate/00 is no witness's key"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "witnesses"
    path.write_text(text)
    with pytest.raises(WitnessKeysUnusable, match=why):
        load_witness_keys(path)
    with pytest.raises(WitnessKeysUnusable, match="can't be read"):
        load_witness_keys(tmp_path / "none")
