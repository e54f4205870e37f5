"""A signer's configuration lets exactly one user in, and only over a Unix socket."""

from pathlib import Path

from core_log.tree.signer_config import SignerConfig
from hosting.units import Address


def problems(listen: str, *uids: int) -> list[str]:
    config = SignerConfig(Address.parse(listen), Path("key"), Path("data"), admit_uids=uids)
    return [key for key, _ in config.problems()]


def test_it_needs_a_socket_and_a_user() -> None:
    assert problems("unix:run/signer.sock", 7) == []
    assert problems("127.0.0.1:7000", 7) == ["listen"]
    assert problems("unix:run/signer.sock") == ["admit_uids"]
    assert problems("unix:run/signer.sock", -1) == ["admit_uids"]
