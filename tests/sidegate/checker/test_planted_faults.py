"""What somebody with the core's disk, and even with its key, may try. Each is found and named."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sidegate.checker.findings import Finding
from sidegate.checker.tree_files import Claim
from sidegate.checker.verify import LogReport, segments_of, verify_log


def check(log: Any, checkpoints: Sequence[Claim] = ()) -> LogReport:
    return verify_log(
        log.folder,
        root=log.root,
        jobs=1,
        progress=lambda _count: None,
        keys=log.keys,
        checkpoints=checkpoints,
    )


def found(report: LogReport, kind: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.kind == kind]


def places(findings: Sequence[Finding]) -> list[tuple[str | None, int | None, int | None]]:
    return [(each.topic, each.first_offset, each.last_offset) for each in findings]


def test_a_sound_log_has_no_findings_and_says_what_is_unproven(signed_log: Any) -> None:
    signed_log.write()
    report = check(signed_log, [signed_log.remember("witness", 12)])
    assert report.findings == []
    assert report.senders_proven == 12
    assert report.tree is not None
    assert (report.tree.leaves, report.tree.checkpoints, report.tree.cosigned) == (12, 4, 8)
    assert report.tree.unproven == [
        "checkpoint of 12 leaves: not cosigned",
        "leaves 8 to 11: no cosigned checkpoint covers them",
    ]


def test_a_cosigned_log_has_nothing_unproven(signed_log: Any) -> None:
    signed_log.write(cosigned=(4, 8, 12))
    report = check(signed_log)
    assert report.findings == []
    assert report.tree is not None
    assert report.tree.unproven == []


def test_a_changed_byte_with_its_hashes_and_checksum_repaired(signed_log: Any) -> None:
    signed_log.batches[6].values[1] = b"nEedle-6"
    signed_log.write()
    changed = signed_log.make_frames()
    assert len(changed[6]) == len(signed_log.frames[6])
    path = segments_of(signed_log.folder)[1]
    path.write_bytes(path.read_bytes().replace(signed_log.frames[6], changed[6]))
    report = check(signed_log)
    assert places(found(report, "provenance")) == [("orders", 6, 7)]
    assert places(found(report, "tree_leaf")) == [("orders", 6, 7)]
    assert any("checkpoint of 8 leaves" in each.text for each in found(report, "tree_root"))
    assert not any("checkpoint of 4 leaves" in each.text for each in report.findings)


def test_the_same_by_someone_who_also_writes_the_tree_and_signs_anew(signed_log: Any) -> None:
    signed_log.write()
    seen = signed_log.remember("witness", 10)
    signed_log.batches[6].values[1] = b"nEedle-6"
    signed_log.frames = signed_log.make_frames()
    signed_log.write()
    report = check(signed_log, [seen])
    assert places(found(report, "provenance")) == [("orders", 6, 7)]
    (root,) = found(report, "tree_root")
    assert root.file == "witness"
    assert "checkpoint of 10 leaves" in root.text


def test_a_removed_last_batch(signed_log: Any) -> None:
    signed_log.write()
    path = segments_of(signed_log.folder)[-1]
    path.write_bytes(path.read_bytes()[: -len(signed_log.frames[-1])])
    report = check(signed_log)
    assert any("checkpoint of 12 leaves" in each.text for each in found(report, "cut_off"))


def test_a_removed_last_batch_with_a_tree_made_to_fit(signed_log: Any) -> None:
    signed_log.write(cosigned=(4, 8, 12))
    seen = signed_log.remember("witness", 12)
    signed_log.frames.pop()
    signed_log.write()
    report = check(signed_log, [seen])
    (cut,) = found(report, "cut_off")
    assert (cut.file, "checkpoint of 12 leaves" in cut.text) == ("witness", True)
    assert found(report, "checkpoint_missing")


def test_a_removed_middle_batch(signed_log: Any) -> None:
    signed_log.write()
    path = segments_of(signed_log.folder)[1]
    path.write_bytes(path.read_bytes().replace(signed_log.frames[5], b""))
    report = check(signed_log)
    assert [each.text for each in found(report, "leaf_gap")]
    assert places(found(report, "offset_gap")) == [("payments", 4, 5)]


def test_a_removed_middle_batch_with_everything_behind_it_numbered_and_signed_anew(
    signed_log: Any,
) -> None:
    signed_log.write()
    seen = signed_log.remember("witness", 9)
    del signed_log.batches[5]
    for batch in signed_log.batches[5:]:
        if batch.topic == "payments":
            batch.offset -= 2
    signed_log.frames = signed_log.make_frames()
    signed_log.write()
    report = check(signed_log, [seen])
    (root,) = found(report, "tree_root")
    assert root.file == "witness"
    assert "checkpoint of 9 leaves" in root.text


def test_a_removed_run_of_segments(signed_log: Any) -> None:
    signed_log.write()
    segments_of(signed_log.folder)[1].unlink()
    report = check(signed_log)
    assert found(report, "leaf_gap")
    assert places(found(report, "offset_gap")) == [("orders", 4, 7), ("payments", 4, 7)]


def test_removed_segments_at_the_end(signed_log: Any) -> None:
    signed_log.write()
    for path in segments_of(signed_log.folder)[1:]:
        path.unlink()
    report = check(signed_log)
    named = " ".join(each.text for each in found(report, "cut_off"))
    assert "checkpoint of 8 leaves" in named
    assert "checkpoint of 12 leaves" in named


def test_a_removed_checkpoint_file(signed_log: Any) -> None:
    signed_log.write()
    (signed_log.folder / "tree" / "checkpoint").unlink()
    (missing,) = check(signed_log).findings
    assert missing.kind == "checkpoint_missing"
    assert "checkpoint of 12 leaves" in missing.text


@pytest.mark.parametrize("size", [4, 8])
def test_a_removed_checkpoint_of_a_segments_end(signed_log: Any, size: int) -> None:
    signed_log.write()
    (signed_log.folder / "tree" / "checkpoints" / f"{size:020d}").unlink()
    (missing,) = check(signed_log).findings
    assert missing.kind == "checkpoint_missing"
    assert f"checkpoint of {size} leaves" in missing.text


def test_a_checkpoint_that_a_witness_remembers_and_the_log_does_not(signed_log: Any) -> None:
    signed_log.write()
    seen = signed_log.remember("witness", 12)
    tree = signed_log.folder / "tree"
    (tree / "checkpoint").unlink()
    (tree / "state").unlink()
    report = check(signed_log, [seen])
    assert [each.text for each in found(report, "checkpoint_missing")] == [
        "checkpoint of 12 leaves: witness tells of it, and the newest here is of 8"
    ]


def test_a_removed_tree(signed_log: Any) -> None:
    signed_log.write(tree=False)
    (missing,) = check(signed_log, [signed_log.remember("witness", 12)]).findings
    assert missing.kind == "tree_missing"
    assert "checkpoint of 12 leaves" in missing.text


def test_two_swapped_batches(signed_log: Any) -> None:
    signed_log.write()
    path = segments_of(signed_log.folder)[1]
    one, other = signed_log.frames[4], signed_log.frames[5]
    path.write_bytes(path.read_bytes().replace(one + other, other + one))
    report = check(signed_log)
    assert ("payments", 4, 5) in places(found(report, "leaf_gap"))


def swapped(log: Any) -> None:
    one, other = log.batches[4], log.batches[6]
    log.batches[4] = replace(other, offset=one.offset, append_us=one.append_us)
    log.batches[6] = replace(one, offset=other.offset, append_us=other.append_us)


def later(log: Any) -> None:
    log.batches[6].append_us += 3_600_000_000


def other_offsets(log: Any) -> None:
    log.batches[2].offset, log.batches[4].offset = 4, 2


@pytest.mark.parametrize("change", [swapped, later, other_offsets])
def test_stamps_that_were_changed_behind_the_trees_back(signed_log: Any, change: Any) -> None:
    """Who only has the disk can't sign: the tree and its checkpoints stay as they were."""
    signed_log.write()
    tree = signed_log.folder / "tree"
    kept = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    change(signed_log)
    signed_log.frames = signed_log.make_frames()
    signed_log.write()
    for path, content in kept.items():
        path.write_bytes(content)
    report = check(signed_log)
    leaves = places(found(report, "tree_leaf"))
    assert any(topic == "orders" and first in (2, 4, 6) for topic, first, _ in leaves)
    assert any("checkpoint of 8 leaves" in each.text for each in found(report, "tree_root"))


@pytest.mark.parametrize("change", [swapped, later, other_offsets])
def test_stamps_that_were_changed_by_the_core_after_a_witness_had_seen_them(
    signed_log: Any, change: Any
) -> None:
    signed_log.write()
    seen = signed_log.remember("witness", 11)
    change(signed_log)
    signed_log.frames = signed_log.make_frames()
    signed_log.write()
    report = check(signed_log, [seen])
    (root,) = found(report, "tree_root")
    assert (root.file, "checkpoint of 11 leaves" in root.text) == ("witness", True)


def test_a_forged_sender(signed_log: Any) -> None:
    signed_log.batches[3].principal = "shipping"
    signed_log.frames = signed_log.make_frames()
    signed_log.write()
    (forged,) = check(signed_log).findings
    assert (forged.kind, forged.topic, forged.first_offset) == ("provenance", "payments", 2)
    assert "shipping" in forged.text


def test_a_sender_forged_under_a_gatekeeper_of_ones_own(signed_log: Any) -> None:
    own = Ed25519PrivateKey.generate()
    batch = signed_log.batches[3]
    batch.signature, batch.gatekeeper = None, "gk-9"
    signed_log.frames[3] = batch.frame(3, own)
    signed_log.write()
    (forged,) = check(signed_log).findings
    assert (forged.kind, forged.topic, forged.first_offset) == ("unknown_gatekeeper", "payments", 2)


def test_a_known_gatekeepers_name_under_another_key(signed_log: Any) -> None:
    batch = signed_log.batches[3]
    batch.signature = None
    signed_log.frames[3] = batch.frame(3, Ed25519PrivateKey.generate())
    signed_log.write()
    (forged,) = check(signed_log).findings
    assert (forged.kind, forged.topic, forged.first_offset) == ("provenance", "payments", 2)


def test_provenance_that_was_moved_from_another_batch(signed_log: Any) -> None:
    signed_log.batches[3].signature = signed_log.batches[5].signature
    signed_log.frames = signed_log.make_frames()
    signed_log.write()
    (moved,) = check(signed_log).findings
    assert (moved.kind, moved.topic, moved.first_offset) == ("provenance", "payments", 2)


def test_a_history_that_the_core_rewrote_and_signed_again_after_a_witness_had_seen_it(
    signed_log: Any,
) -> None:
    signed_log.write(cosigned=(4, 8, 12))
    seen = signed_log.remember("witness", 12)
    # Nothing is forged: some batches are left out, the rest is numbered and signed as if new.
    signed_log.batches = [batch for batch in signed_log.batches if batch.topic == "orders"]
    signed_log.frames = signed_log.make_frames()
    signed_log.write(cosigned=())
    assert check(signed_log).findings == []
    report = check(signed_log, [seen])
    assert {each.kind for each in report.findings} == {"cut_off", "checkpoint_missing"}
    assert all("checkpoint of 12 leaves" in each.text for each in report.findings)
    signed_log.batches += [replace(batch, offset=batch.offset + 12) for batch in signed_log.batches]
    signed_log.frames = signed_log.make_frames()
    signed_log.write(cosigned=())
    (root,) = found(check(signed_log, [seen]), "tree_root")
    assert (root.file, "checkpoint of 12 leaves" in root.text) == ("witness", True)


def test_a_split_view_that_was_shown_to_two_witnesses(signed_log: Any) -> None:
    signed_log.write()
    first = signed_log.remember("witness-1", 12)
    honest = list(signed_log.batches), list(signed_log.frames)
    del signed_log.batches[11]
    signed_log.batches.append(replace(signed_log.batches[9], offset=10))
    signed_log.frames = signed_log.make_frames()
    second = signed_log.remember("witness-2", 12)
    signed_log.batches, signed_log.frames = honest
    report = check(signed_log, [first, second])
    assert "witness-2" in {each.file for each in found(report, "tree_root")}
    assert "witness-1" not in {each.file for each in found(report, "tree_root")}
    (split, *_) = found(report, "split_view")
    assert "checkpoint of 12 leaves" in split.text


def test_a_checkpoint_that_the_core_has_not_signed(signed_log: Any) -> None:
    signed_log.write()
    honest = signed_log.core
    signed_log.core = Ed25519PrivateKey.generate()
    forged = signed_log.remember("elsewhere", 9)
    signed_log.core = honest
    report = check(signed_log, [forged])
    assert [(each.kind, each.file) for each in report.findings] == [
        ("checkpoint_signature", "elsewhere")
    ]


def test_a_cosignature_that_is_not_the_witnesss(signed_log: Any) -> None:
    honest = signed_log.gatekeeper
    signed_log.gatekeeper = Ed25519PrivateKey.generate()
    signed_log.write()
    signed_log.gatekeeper = honest
    report = check(signed_log)
    assert [each.kind for each in report.findings] == ["checkpoint_signature"] * 2
    assert "checkpoint of 4 leaves" in report.findings[0].text
    assert report.tree is not None
    assert report.tree.cosigned == 0
