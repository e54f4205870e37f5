"""The format's limits. Every length is held against one of these before anything is allocated."""

from typing import Final

TOPIC_BYTES_MAX: Final = 249
"""A topic name's length: Kafka's own limit, so that every name can become a Kafka topic."""

NAME_BYTES_MAX: Final = 512
"""Principal, issuer, client id, token id, rule, gatekeeper id: a SPIFFE id or issuer URL fits."""

ENVELOPE_BYTES_MAX: Final = 4096
"""All parts at their greatest come to less than this, and a reader can keep one on its stack."""

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""One batch, stored or uncompressed: 16 messages of the default 1 MiB limit; bounds a reader."""

RECORDS_MAX: Final = 1_000_000
"""Records in one batch: bounds the offsets arrays that a decoder makes."""
