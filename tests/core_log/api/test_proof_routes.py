"""The routes of checkpoints and proofs: what leaves the core can be checked anywhere."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core_log.api.proof_routes import Place, ProofQuery, parse_proof
from core_log.api.query import BadQuery, Query
from core_log.tree.signing import verify
from hosting.signing_key import load_signing_key
from log_format.checkpoint_note import cosign, parse_tree_head, verified_signatures
from log_format.envelope import decode_envelope
from log_format.layout import SEGMENT_HEAD_BYTES, segment_name
from log_format.leaf import leaf_hash
from log_format.note import Note, SignatureType, VerifierKey, parse_note
from log_format.tree import verify_consistency, verify_inclusion

WITNESS = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
WITNESS_KEY = VerifierKey(
    "gatekeeper-1", SignatureType.COSIGNATURE_V1, WITNESS.public_key().public_bytes_raw()
)


async def checkpoint(core: Any, query: str = "") -> Note:
    status, body, headers = await core.call("GET", f"/v1/checkpoint{query}")
    assert status == 200, body
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    return parse_note(body)


async def covered(core: Any, leaf: int) -> Note:
    note = await checkpoint(core, f"?wait_leaf={leaf}&wait_ms=10000")
    assert parse_tree_head(note.text).size > leaf
    return note


async def problem(core: Any, path: str, method: str = "GET", **kwargs: Any) -> tuple[int, str]:
    status, body, _ = await core.call(method, path, **kwargs)
    return status, body["code"]


@pytest.fixture
async def signing_core(start_core: Any, signing_key: Path) -> Any:
    core = await start_core(signing_key=signing_key)
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    return core


async def test_a_new_core_shows_a_checkpoint_of_the_empty_tree_at_once(
    signing_core: Any, signing_key: Path
) -> None:
    note = await checkpoint(signing_core)
    head = parse_tree_head(note.text)
    log_id = signing_core.core.storage.disk.log.log_id
    assert (head.origin, head.size) == (f"sidegate/{log_id.hex()}", 0)
    public = load_signing_key(signing_key).public_key().public_bytes_raw()
    key = VerifierKey(head.origin, SignatureType.ED25519, public)
    assert len(verified_signatures(note, [key], verify)) == 1


async def test_what_is_appended_is_covered_and_proven(signing_core: Any, frames: Any) -> None:
    results = await signing_core.append(*(frames.encoded() for _ in range(20)))
    last = results[-1]["leaf"]
    before = parse_tree_head((await checkpoint(signing_core)).text)
    await covered(signing_core, last)
    status, proof, _ = await signing_core.call(
        "GET", f"/v1/proof?topic=orders&partition=0&offset={results[7]['base_offset']}"
    )
    assert status == 200
    head = parse_tree_head(parse_note(proof["checkpoint"]).text)
    envelope = decode_envelope(bytes.fromhex(proof["envelope"]))
    hashes = [bytes.fromhex(each) for each in proof["hashes"]]
    assert proof["leaf"] == envelope.stamp.leaf == results[7]["leaf"]
    assert proof["size"] == head.size > last
    assert verify_inclusion(leaf_hash(envelope.raw), proof["leaf"], head.size, hashes, head.root)
    by_leaf = await signing_core.call("GET", f"/v1/proof?leaf={proof['leaf']}&size={head.size}")
    assert by_leaf[1] == proof
    status, answer, _ = await signing_core.call("GET", f"/v1/proof?from=0&to={head.size}")
    assert answer == {"from": 0, "to": head.size, "hashes": []}
    await signing_core.append(*(frames.encoded() for _ in range(5)))
    later = parse_tree_head((await covered(signing_core, last + 5)).text)
    _, answer, _ = await signing_core.call("GET", f"/v1/proof?from={head.size}&to={later.size}")
    hashes = [bytes.fromhex(each) for each in answer["hashes"]]
    assert verify_consistency(head.size, later.size, head.root, later.root, hashes)
    assert before.size <= head.size < later.size


async def test_one_who_waits_is_told_soon_and_one_who_waits_in_vain_gets_the_newest(
    signing_core: Any, frames: Any
) -> None:
    waiting = asyncio.ensure_future(covered(signing_core, 0))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await signing_core.append(frames.encoded())
    await waiting
    note = await checkpoint(signing_core, "?wait_leaf=77&wait_ms=20")
    assert parse_tree_head(note.text).size < 77


async def test_a_cosignature_is_kept_with_its_checkpoint_also_across_a_restart(
    signing_core: Any, frames: Any, start_core: Any, signing_key: Path
) -> None:
    await signing_core.append(frames.encoded())
    note = await covered(signing_core, 0)
    cosigned = cosign(note, WITNESS_KEY, WITNESS.sign, 1_700_000_000)
    waiting = asyncio.ensure_future(
        checkpoint(signing_core, "?wait_leaf=0&cosigned=1&wait_ms=10000")
    )
    status, answer, _ = await signing_core.call(
        "POST", "/v1/cosignatures", json={"checkpoint": str(cosigned)}
    )
    assert (status, answer["cosignatures"]) == (200, 1)
    assert await waiting == await checkpoint(signing_core) == cosigned
    _, proof, _ = await signing_core.call("GET", "/v1/proof?leaf=0")
    assert proof["checkpoint"] == str(cosigned)
    await signing_core.stop()
    again = await start_core(signing_key=signing_key)
    assert await checkpoint(again) == cosigned


async def test_what_is_no_cosignature_of_a_checkpoint_here_is_refused(signing_core: Any) -> None:
    note = await checkpoint(signing_core)
    unknown = cosign(Note(note.text.replace("\n0\n", "\n9\n")), WITNESS_KEY, WITNESS.sign, 1)
    other = cosign(Note(note.text + "more\n"), WITNESS_KEY, WITNESS.sign, 1)
    for body, expected in (
        ({}, (400, "bad_cosignature")),
        ({"checkpoint": 5}, (400, "bad_cosignature")),
        ({"checkpoint": "rubbish"}, (400, "bad_cosignature")),
        ({"checkpoint": str(note)}, (400, "bad_cosignature")),
        ({"checkpoint": str(cosign(Note("a\n"), WITNESS_KEY, WITNESS.sign, 1))},
         (400, "bad_cosignature")),
        ({"checkpoint": str(other)}, (400, "bad_cosignature")),
        ({"checkpoint": str(unknown)}, (404, "unknown_checkpoint")),
    ):  # fmt: skip
        assert await problem(signing_core, "/v1/cosignatures", "POST", json=body) == expected


async def test_where_witnesses_are_known_nobody_else_cosigns(
    start_core: Any, signing_key: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "witnesses"
    keys.write_text(f"# who watches\n{WITNESS_KEY}\n")
    core = await start_core(signing_key=signing_key, witness_keys=keys)
    note = await checkpoint(core)
    stranger = Ed25519PrivateKey.generate()
    public = stranger.public_key().public_bytes_raw()
    unknown = VerifierKey("mallory", SignatureType.COSIGNATURE_V1, public)
    refused = (400, "bad_cosignature")
    for key, private in ((unknown, stranger), (WITNESS_KEY, stranger)):
        body = {"checkpoint": str(cosign(note, key, private.sign, 1))}
        assert await problem(core, "/v1/cosignatures", "POST", json=body) == refused
    body = {"checkpoint": str(cosign(note, WITNESS_KEY, WITNESS.sign, 1))}
    assert (await core.call("POST", "/v1/cosignatures", json=body))[0] == 200


async def test_what_can_not_be_proven_is_refused_by_name(signing_core: Any, frames: Any) -> None:
    await signing_core.append(frames.encoded())
    await covered(signing_core, 0)
    for path, expected in (
        ("/v1/proof", (400, "bad_query")),
        ("/v1/proof?leaf=0&topic=orders", (400, "bad_query")),
        ("/v1/proof?from=0", (400, "bad_query")),
        ("/v1/proof?leaf=x", (400, "bad_query")),
        ("/v1/proof?leaf=0&more=1", (400, "bad_query")),
        ("/v1/proof?leaf=99", (404, "unknown_leaf")),
        ("/v1/proof?from=3&to=1", (404, "unknown_leaf")),
        ("/v1/proof?from=0&to=99", (404, "unknown_leaf")),
        ("/v1/proof?leaf=0&size=99", (404, "unknown_checkpoint")),
        ("/v1/proof?topic=orders&offset=5", (404, "unknown_leaf")),
        ("/v1/proof?topic=nothing&offset=5", (404, "unknown_topic")),
        ("/v1/proof?topic=orders&partition=7&offset=0", (404, "unknown_partition")),
        ("/v1/checkpoint?wait_leaf=-1", (400, "bad_query")),
    ):
        assert await problem(signing_core, path) == expected, path


async def test_a_batch_that_was_changed_is_never_shown_as_proven(
    signing_core: Any, frames: Any, caplog: Any
) -> None:
    await signing_core.append(frames.encoded(), frames.encoded())
    await covered(signing_core, 1)
    _forge_first_batch(signing_core.config.data / segment_name(0))
    assert await problem(signing_core, "/v1/proof?leaf=0") == (503, "tree_refused")
    assert "a batch is not the one that was signed" in caplog.text
    assert (await signing_core.call("GET", "/v1/proof?leaf=1"))[0] == 200


async def test_an_old_batch_that_was_changed_is_found_in_the_background(
    signing_core: Any, frames: Any, start_core: Any, signing_key: Path, eventually: Any
) -> None:
    await signing_core.append(*(frames.encoded() for _ in range(300)))
    await covered(signing_core, 299)
    await signing_core.stop()
    _forge_first_batch(signing_core.config.data / segment_name(0))
    again = await start_core(signing_key=signing_key, ready=False)
    await eventually(lambda: again.core.checkpoints.tree.refusal)
    readiness = again.core.service.readiness()
    assert "leaf 0 (orders/0 from 0 on) is not the batch" in str(readiness.detail)
    assert not readiness.ready
    assert await problem(again, "/v1/proof?leaf=1") == (503, "tree_refused")


async def test_a_log_that_was_rewritten_is_not_signed_again_and_says_so(
    signing_core: Any, frames: Any, start_core: Any, signing_key: Path, caplog: Any
) -> None:
    await signing_core.append(frames.encoded(), frames.encoded())
    signed = await covered(signing_core, 1)
    await signing_core.stop()
    _forge_first_batch(signing_core.config.data / segment_name(0))
    again = await start_core(signing_key=signing_key, ready=False)
    readiness = again.core.service.readiness()
    assert not readiness.ready
    assert "the log was changed" in str(readiness.detail)
    assert "the tree is refused: nothing is signed" in caplog.text
    assert await checkpoint(again) == signed
    await again.append(frames.encoded())
    note = await checkpoint(again, "?wait_leaf=2&wait_ms=1500")
    assert note == signed
    assert await problem(again, "/v1/proof?leaf=1") == (503, "tree_refused")
    _, status, _ = await again.call("GET", "/v1/status")
    assert "the log was changed" in status["tree_refused"]


def _forge_first_batch(segment: Path) -> None:
    """Change the sender of a log's first batch, and make its checksum right again."""
    content = segment.read_bytes()
    envelope = decode_envelope(content, SEGMENT_HEAD_BYTES)
    forged = bytearray(envelope.raw)
    forged[envelope.raw.index(b"billing")] ^= 1
    end = SEGMENT_HEAD_BYTES + len(forged)
    segment.write_bytes(content[:SEGMENT_HEAD_BYTES] + _resealed(bytes(forged)) + content[end:])


def _resealed(envelope: bytes) -> bytes:
    """The envelope with its checksum made right again, as a forger would."""
    crc = crc32c(envelope[24:], crc32c(envelope[:20]))
    return envelope[:20] + crc.to_bytes(4, "little") + envelope[24:]


async def test_a_core_without_a_key_says_so(core: Any) -> None:
    assert await problem(core, "/v1/checkpoint") == (404, "no_checkpoint")
    assert await problem(core, "/v1/proof?leaf=0") == (404, "no_checkpoint")
    status, answer, _ = await core.call("GET", "/v1/proof?from=0&to=0")
    assert (status, answer["hashes"]) == (200, [])


def test_a_query_asks_for_one_thing() -> None:
    def parsed(**items: str) -> ProofQuery:
        return parse_proof(Query((name.rstrip("_"), value) for name, value in items.items()))

    assert parsed(leaf="7") == ProofQuery(leaf=7)
    assert parsed(leaf="7", size="9") == ProofQuery(leaf=7, size=9)
    assert parsed(topic="a", offset="3") == ProofQuery(place=Place("a", 0, 3))
    assert parsed(from_="3", to="5") == ProofQuery(sizes=(3, 5))
    for broken in (
        {"from_": "3", "to": "5", "size": "5"},
        {"topic": "a"},
        {"leaf": "1", "to": "2"},
    ):
        with pytest.raises(BadQuery):
            parsed(**broken)
