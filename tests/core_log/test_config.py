"""`core.yaml`: what it may say, and what is refused before anything is touched."""

from pathlib import Path

import pytest

from core_log.config import CoreConfig, LimitsConfig, LogConfig
from hosting.config import ConfigError, load_config
from hosting.tls_contexts import TlsFiles
from hosting.units import Address

WHOLE = """
environment: development
listen: 127.0.0.1:7443
health: 127.0.0.1:7444
tls: {certificate: certs/core.pem, key: certs/core.key, ca: ca/ca.pem}
admit: [spiffe://sidegate-dev/gatekeeper]
data: data/core
auto_create_topics: true
log:
  durability: interval
  interval_ms: 50
  segment_bytes: 64MiB
  in_flight_bytes_max: 8MiB
  disk_reserve_bytes: 1GiB
  hot_tail_bytes: 16MiB
  clean_interval: 5m
limits: {request_bytes_max: 64MiB, streams_max: 50, memory_topic_bytes: 2MiB}
"""


def loaded(text: str, folder: Path, **environ: str) -> CoreConfig:
    path = folder / "core.yaml"
    path.write_text(text)
    return load_config(CoreConfig, service="core", path=path, environ=environ)


def problems(text: str, folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(text, folder)
    return str(caught.value)


def test_a_whole_file_is_read_with_paths_relative_to_it(tmp_path: Path) -> None:
    config = loaded(WHOLE, tmp_path)
    assert config.listen == Address("127.0.0.1", 7443)
    assert config.tls == TlsFiles(
        tmp_path / "certs/core.pem", tmp_path / "certs/core.key", tmp_path / "ca/ca.pem"
    )
    assert config.data == tmp_path / "data/core"
    assert config.auto_create_topics
    assert config.limits == LimitsConfig(64 << 20, 50, 2 << 20)
    options = config.log.options()
    assert (options.durability, options.sync_interval_s) == ("interval", 0.05)
    assert (options.segment_bytes, options.in_flight_bytes_max) == (64 << 20, 8 << 20)
    assert options.disk_reserve_bytes == 1 << 30
    assert config.log.clean_interval == 300


def test_the_defaults_are_the_safe_ones(tmp_path: Path) -> None:
    text = "listen: unix:core.sock\nhealth: 127.0.0.1:7444\ndata: d\nadmit_uids: [7]\n"
    config = loaded(text, tmp_path)
    assert config.environment == "production"
    assert not config.auto_create_topics
    assert config.log == LogConfig()
    assert config.log.options().durability == "fsync"
    assert config.listen.path == tmp_path / "core.sock"


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    config = loaded(WHOLE, tmp_path, SIDEGATE_CORE_LOG__DURABILITY="os")
    assert config.log.durability == "os"


def test_a_bare_port_is_never_served(tmp_path: Path) -> None:
    text = "listen: 127.0.0.1:1\nhealth: 127.0.0.1:2\ndata: d\n"
    found = problems(text, tmp_path)
    assert "tls: must be given unless `listen` is a Unix socket" in found
    assert "admit: must name the SPIFFE ids of gatekeepers" in found


def test_a_unix_socket_needs_the_users_to_admit(tmp_path: Path) -> None:
    text = "listen: unix:core.sock\nhealth: 127.0.0.1:2\ndata: d\n"
    assert "admit_uids: must name the user ids" in problems(text, tmp_path)
    assert "-5 is not a user id" in problems(f"{text}admit_uids: [-5]\n", tmp_path)


def test_identities_must_be_spiffe_ids_of_the_right_environment(tmp_path: Path) -> None:
    found = problems(WHOLE.replace("environment: development", ""), tmp_path)
    assert "development trust domain" in found
    assert "does not begin with spiffe://" in problems(
        WHOLE.replace("spiffe://sidegate-dev/gatekeeper", "gatekeeper"), tmp_path
    )


def test_a_ca_is_needed_to_know_gatekeepers(tmp_path: Path) -> None:
    assert "tls.ca: must name the CA" in problems(WHOLE.replace(", ca: ca/ca.pem", ""), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("segment_bytes: 64MiB", "segment_bytes: 1", "segment_bytes must be from 4 KiB"),
        ("interval_ms: 50", "interval_ms: 0", "interval_ms: must be between 1 and 60000"),
        ("clean_interval: 5m", "clean_interval: 10ms", "clean_interval: must be at least 1s"),
        ("streams_max: 50", "streams_max: 0", "streams_max: must be at least 1"),
        ("request_bytes_max: 64MiB", "request_bytes_max: 1", "at least 1MiB"),
        ("memory_topic_bytes: 2MiB", "memory_topic_bytes: 1", "at least 1MiB"),
        ("durability: interval", "durability: maybe", "durability"),
        ("data: data/core", "dta: data/core", "dta"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    assert problem in problems(WHOLE.replace(old, new), tmp_path)
