"""Receipts as the sidecar gets them: waited for, checked, whole."""

import asyncio

import pytest
from aiohttp import web

from log_format.envelope import provenance_signed_bytes
from log_format.proof import check_proof, read_proof
from sidecar.errors import Denied, GatekeeperRefused, NoReceipt, UnknownMessage, UplinkDown
from sidecar.publish.receipts import Receipts


@pytest.fixture
async def sidecar(mesh):
    running = await mesh.sidecar()
    for number in range(5):
        assert (await running.publish({"topic": "t", "message": number}))[0] == 200
    return running


@pytest.fixture
async def receipts(sidecar, open_gateway):
    return Receipts((await open_gateway()).gateway)


@pytest.fixture
def proofs(mesh):
    return mesh.gatekeeper.proofs


async def test_a_covered_and_cosigned_message_has_its_receipt_at_once(receipts, proofs):
    await proofs.grow(5, 5)
    receipt = await receipts.fetch("t", 0, 3, 5.0)
    assert receipt.cosigned
    assert (receipt.proof.topic, receipt.proof.offset, receipt.proof.size) == ("t", 3, 5)
    assert b"3" in (receipt.proof.body or b"")


async def test_it_waits_for_a_checkpoint_and_for_a_witness(receipts, proofs):
    waiting = asyncio.create_task(receipts.fetch("t", 0, 3, 30.0))
    await asyncio.sleep(0)
    await proofs.grow(4)
    await asyncio.sleep(0)
    await proofs.grow(5, 4)
    receipt = await waiting
    assert receipt.cosigned
    assert receipt.proof.size == 4


async def test_in_time_without_a_witness_it_is_the_cores_word_alone(receipts, proofs):
    await proofs.grow(5)
    receipt = await receipts.fetch("t", 0, 3, 0.05)
    assert not receipt.cosigned


async def test_what_is_not_covered_in_time_has_none_yet(receipts):
    with pytest.raises(NoReceipt, match="ask again"):
        await receipts.fetch("t", 0, 3, 0.05)


async def test_a_message_that_does_not_exist_has_none_ever(receipts, proofs):
    await proofs.grow(5, 5)
    with pytest.raises(UnknownMessage):
        await receipts.fetch("t", 0, 99, 30.0)


async def test_an_app_that_may_not_read_gets_a_receipt_without_the_content(mesh, receipts, proofs):
    await proofs.grow(5, 5)
    mesh.gatekeeper.read_failures.append(web.Response(status=403))
    assert (await receipts.fetch("t", 0, 3, 5.0)).proof.body is None


@pytest.mark.parametrize(
    ("status", "document", "error"),
    [
        (200, {}, GatekeeperRefused),
        (200, {"envelope": "zz", "hashes": [], "checkpoint": ""}, GatekeeperRefused),
        (403, {"code": "denied", "detail": "no"}, Denied),
        (404, {"code": "not_found", "detail": "nothing is served"}, NoReceipt),
        (503, {"code": "unavailable", "detail": "down"}, UplinkDown),
    ],
)
async def test_answers_that_are_no_proof_are_told_apart(receipts, proofs, status, document, error):
    proofs.answer = web.json_response(document, status=status)
    with pytest.raises(error):
        await receipts.fetch("t", 0, 3, 5.0)


async def test_a_proof_of_another_message_is_not_passed_on(receipts, proofs, sidecar):
    await sidecar.publish({"topic": "other", "message": 1})
    await proofs.grow(6, 6)
    good = await receipts.fetch("other", 0, 0, 5.0)
    document = good.proof.as_json()
    proofs.answer = web.json_response(document)
    with pytest.raises(GatekeeperRefused, match="not of this message"):
        await receipts.fetch("t", 0, 0, 5.0)
    proofs.answer = web.json_response({**document, "hashes": document["hashes"][:-1]})
    with pytest.raises(GatekeeperRefused, match="does not hold"):
        await receipts.fetch("other", 0, 0, 5.0)


async def test_a_receipt_is_a_proof_for_the_offline_check(receipts, proofs):
    import json

    await proofs.grow(5, 5)
    receipt = await receipts.fetch("t", 0, 3, 5.0)
    proof = read_proof(json.dumps(receipt.proof.as_json()))

    def verify(public, message, signature):
        # The fake gatekeeper signs no provenance; checkpoints are signed for real.
        from log_format.envelope import decode_envelope

        if message == provenance_signed_bytes(decode_envelope(proof.envelope).raw):
            return signature == bytes(64)
        keys = {proofs.core_key.public: proofs.core, proofs.gate_key.public: proofs.gate}
        keys[public].public_key().verify(signature, message)
        return True

    proven = check_proof(proof, proofs.core_key, [proofs.gate_key], verify)
    assert proven.offset == 3
