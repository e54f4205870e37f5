"""Proofs from a log's files alone; each holds where the log does, and none where it does not."""

from pathlib import Path
from typing import Any

import pytest

from log_format.envelope import decode_envelope, without_body
from log_format.layout import SEGMENT_HEAD_BYTES
from log_format.proof import check_proof, read_proof
from sidegate.checker.proving import CannotProve, best_claim, find_batch, leaf_hashes, prove
from sidegate.checker.signatures import verify
from sidegate.checker.tree_files import TreeFiles
from sidegate.checker.verify import segments_of


@pytest.fixture
def large(tmp_path: Path, signed_log: Any) -> Any:
    log = type(signed_log)(tmp_path / "large", 600, 200)
    log.write(cosigned=(200, 400, 600))
    return log


def proven(log: Any, topic: str, offset: int, *, body: bool = True) -> Any:
    import json

    located = find_batch(log.folder, topic, 0, offset)
    claims = TreeFiles(log.folder, log.folder).claims
    claim, cosigned = best_claim(claims, located.leaf, log.keys.gatekeepers)
    assert claim is not None
    assert cosigned
    proof = prove(log.folder, located, offset, claim, body=body)
    text = json.dumps(proof.as_json())
    return check_proof(read_proof(text), log.core_key, [log.witness_key], verify)


def test_every_message_can_be_proven(large: Any) -> None:
    for topic in ("orders", "payments"):
        for offset in (0, 1, 17, 255, 256, 511, 599):
            found = proven(large, topic, offset)
            assert (found.envelope.producer.topic, found.offset) == (topic, offset)
            assert found.head.size == 600
            assert b"needle-%d" % found.stamp.leaf in found.body


def test_tiles_that_are_gone_or_wrong_are_computed_from_the_batches(large: Any) -> None:
    tree = large.folder / "tree"
    (tree / "tile" / "0" / "001").unlink()
    assert proven(large, "orders", 300)
    path = tree / "tile" / "0" / "000"
    path.write_bytes(bytes(8192))
    assert proven(large, "orders", 300)
    (tree / "state").unlink()
    assert proven(large, "orders", 599)


def test_a_removed_body_is_proven_by_its_envelope(signed_log: Any) -> None:
    signed_log.write(cosigned=(4, 8, 12))
    path = segments_of(signed_log.folder)[0]
    data = path.read_bytes()
    raw = decode_envelope(data, SEGMENT_HEAD_BYTES).raw
    path.write_bytes(data.replace(signed_log.frames[0], without_body(raw)))
    assert find_batch(signed_log.folder, "orders", 0, 0).body is None
    assert proven(signed_log, "orders", 0).body is None
    assert proven(signed_log, "orders", 2, body=False).body is None


def test_what_is_not_there_is_said(signed_log: Any) -> None:
    signed_log.write()
    for topic, offset, said in (("nothing", 0, "nothing of"), ("orders", 12, "last one is 11")):
        with pytest.raises(CannotProve, match=said):
            find_batch(signed_log.folder, topic, 0, offset)
    with pytest.raises(CannotProve, match="not all in the log"):
        leaf_hashes(signed_log.folder, 10, 5)


def test_a_cosigned_checkpoint_comes_before_a_newer_one_that_is_not(signed_log: Any) -> None:
    signed_log.write()
    claims = TreeFiles(signed_log.folder, signed_log.folder).claims
    witnesses = signed_log.keys.gatekeepers
    for leaf, size, cosigned in ((3, 8, True), (7, 8, True), (8, 12, False)):
        claim, known = best_claim(claims, leaf, witnesses)
        assert claim is not None
        assert (claim.head.size, known) == (size, cosigned)
        assert best_claim(claims, leaf, ())[1] == cosigned
    assert best_claim(claims, 12, witnesses) == (None, False)


def test_a_batch_that_was_changed_has_no_proof(signed_log: Any) -> None:
    signed_log.write(cosigned=(12,))
    signed_log.batches[4].values[0] = b'{"n":5}'
    changed = signed_log.make_frames()
    path = segments_of(signed_log.folder)[1]
    path.write_bytes(path.read_bytes().replace(signed_log.frames[4], changed[4]))
    with pytest.raises(CannotProve, match="the log was changed"):
        proven(signed_log, "orders", 4)
