"""(b) Integrity of the provenance: every batch's signature against its gatekeeper's public key.

The signature covers the body's hash and who sent it, so a batch that nobody's gatekeeper let in,
or whose sender was changed, is found here even if everything else was made to fit.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from log_format.envelope import decode_envelope, provenance_signed_bytes
from spark.checks.findings import as_findings

CHECK: Final = "integrity"
GOOD: Final = "good"
BAD: Final = "bad"
NO_KEY: Final = "no_key"
ABSENT: Final = "absent"
_ADDED: Final = "signature string"
_KEPT: Final = ("topic", "partition", "base_offset", "count", "leaf", "file", "position",
                "gatekeeper")  # fmt: skip


def signatures(batches: DataFrame, keys: Mapping[str, bytes]) -> DataFrame:
    """Each batch's place with `signature`: good, bad, no_key (of its gatekeeper), or absent.

    `keys` maps a gatekeeper's id to its raw Ed25519 public key.
    """
    known = dict(keys)

    def judge(tables: Iterator[Any]) -> Iterator[Any]:
        for table in tables:
            judged = pa.array([_judge(raw, known) for raw in table.column("envelope").to_pylist()])
            kept = [table.column(name) for name in _KEPT]
            yield pa.RecordBatch.from_arrays([*kept, judged], names=[*_KEPT, "signature"])

    placed = batches.filter("envelope is not null and leaf is not null").select(*_KEPT, "envelope")
    schema = placed.drop("envelope").schema.simpleString()
    fields = schema.removeprefix("struct<").removesuffix(">").replace(",", ", ")
    return placed.mapInArrow(judge, f"{fields.replace(':', ' ')}, {_ADDED}")


def signature_findings(judged: DataFrame) -> DataFrame:
    """Findings: signatures that are bad, and batches that have none."""
    wrong = judged.filter(f.col("signature").isin(BAD, ABSENT))
    return as_findings(
        wrong,
        CHECK,
        kind=f.concat(f.lit("signature_"), f.col("signature")),
        topic="topic",
        partition="partition",
        first_offset="base_offset",
        last_offset=f.col("base_offset") + f.col("count") - 1,
        leaf="leaf",
        file="file",
        position="position",
        text=f.when(
            f.col("signature") == BAD,
            f.format_string("the signature is not by the gatekeeper %s", "gatekeeper"),
        ).otherwise(f.lit("no gatekeeper has signed who sent this batch")),
    )


def _judge(envelope: bytes, keys: Mapping[str, bytes]) -> str:
    part = decode_envelope(envelope).provenance
    if part is None:
        return ABSENT
    public = keys.get(part.gatekeeper_id)
    if public is None:
        return NO_KEY
    try:
        _key(public).verify(part.signature, provenance_signed_bytes(envelope))
    except InvalidSignature:
        return BAD
    return GOOD


@lru_cache(64)
def _key(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)
