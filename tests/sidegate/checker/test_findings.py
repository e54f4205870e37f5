"""A finding says what, where and in which offsets."""

from sidegate.checker.findings import Finding, Run, offset_gap


def test_a_finding_reads_as_a_sentence_and_as_json() -> None:
    finding = Finding("body_hash", "core/0.seg", 64, "changed", "orders", 0, 6, 7)
    assert str(finding) == "body_hash: core/0.seg at byte 64: changed"
    assert finding.as_dict()["first_offset"] == 6
    whole_file = Finding("leaf_gap", "core/0.seg", None, "missing")
    assert str(whole_file) == "leaf_gap: core/0.seg: missing"
    assert set(whole_file.as_dict()) == {"kind", "file", "text"}


def test_missing_and_repeated_offsets_are_told_apart() -> None:
    missing = offset_gap("orders", 0, 4, Run(8, 9, "core/0.seg", 64))
    assert (missing.first_offset, missing.last_offset) == (4, 7)
    assert "offsets 4 to 7 are missing" in missing.text
    repeated = offset_gap("orders", 0, 4, Run(2, 3, "core/0.seg", 64))
    assert (repeated.first_offset, repeated.last_offset) == (2, 3)
    assert "offset 2 comes again" in repeated.text
