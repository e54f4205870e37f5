"""The gatekeeper's configuration: what it needs, and what it refuses."""

from pathlib import Path

import pytest

from gatekeeper.config import GatekeeperConfig
from hosting.config import ConfigError, load_config

SOUND = """\
environment: production
id: spiffe://example/gatekeeper
tls: {certificate: gk.pem, key: gk.key, ca: ca.pem}
trust_domains:
  example: {bundle: ca.pem}
core: {url: "https://core:7443", spiffe_id: "spiffe://example/core"}
signing_key: signing.pem
policy: policy.yaml
data: data
"""


def loaded(folder: Path, text: str, **environ: str) -> GatekeeperConfig:
    path = folder / "gatekeeper.yaml"
    path.write_text(text)
    return load_config(GatekeeperConfig, service="gatekeeper", path=path, environ=environ)


def test_a_short_file_is_enough_and_defaults_are_safe(tmp_path: Path) -> None:
    config = loaded(tmp_path, SOUND)
    assert config.environment == "production"
    assert config.audit_failure == "closed"
    assert str(config.admin) == "127.0.0.1:8444"
    assert config.listen.port == 8443
    assert config.health.port == 8445
    assert config.limits.header_timeout <= 15
    assert config.trust_domains["example"].crl == "off"
    assert config.signing_key == tmp_path / "signing.pem"


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    changed = loaded(
        tmp_path,
        SOUND,
        SIDEGATE_GATEKEEPER_LIMITS__CONNECTIONS_MAX="7",
        SIDEGATE_GATEKEEPER_AUDIT_FAILURE="count",
    )
    assert changed.limits.connections_max == 7
    assert changed.audit_failure == "count"


def test_a_core_behind_a_unix_socket_needs_no_identity(tmp_path: Path) -> None:
    text = SOUND.replace(
        'core: {url: "https://core:7443", spiffe_id: "spiffe://example/core"}',
        "core: {unix: run/core.sock}",
    )
    assert loaded(tmp_path, text).core.unix == tmp_path / "run/core.sock"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "audit_failure: open\n", "audit_failure"),
        ("", "limits: {header_timeout: 1h}\n", "limits.header_timeout"),
        ("", "limits: {connections_max: 0}\n", "limits.connections_max"),
        ("", "limits: {body_timeout: 0}\n", "limits.body_timeout"),
        ("", "limits: {in_flight_bytes_max: 1MiB}\n", "limits.in_flight_bytes_max"),
        ("", "admin: 0.0.0.0:8444\n", "admin: must be on a loopback"),
        ("", "listen: unix:gk.sock\n", "listen: must be host:port"),
        ("", "audit: {queue_max: 0}\n", "audit.queue_max"),
        ("", "witness: {on_fork: shrug}\n", "witness.on_fork"),
        ("", "witness: {interval: 0}\n", "witness.interval"),
        ("", "witness: {interval: 30s, silence_max: 1s}\n", "witness.silence_max"),
        ("", "listne: 1\n", "listne"),
        ("{bundle: ca.pem}", "{bundle: ca.pem, crl: required}", "crl_file: must be set"),
        ("{bundle: ca.pem}", "{bundle: ca.pem, crl_file: x}", "crl_file: is set but crl is off"),
        ("https://core", "http://core", "core.url: must begin with https"),
        (', spiffe_id: "spiffe://example/core"', "", "core.spiffe_id"),
        ('core: {url: "https://core:7443", ', "core: {unix: x, url: 'https://c', ", "core.url"),
        ("id: spiffe://example/gatekeeper", 'id: ""', "id: must have"),
        ("  example: {", "  sidegate-dev: {", "development trust domain"),
        ("spiffe://example/core", "spiffe://sidegate-dev/core", "development trust domain"),
    ],
)
def test_what_would_be_unsafe_or_senseless_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    text = SOUND.replace(old, new) if old else SOUND + new
    with pytest.raises(ConfigError, match=words):
        loaded(tmp_path, text)


def test_development_may_use_its_own_trust_domain(tmp_path: Path) -> None:
    text = SOUND.replace("production", "development").replace("example", "sidegate-dev")
    assert loaded(tmp_path, text).environment == "development"


def test_a_witness_needs_a_name_that_can_stand_in_a_signature(tmp_path: Path) -> None:
    text = SOUND.replace("id: spiffe://example/gatekeeper", 'id: "g k"')
    assert loaded(tmp_path, text).id == "g k"
    with pytest.raises(ConfigError, match="id: is also the witness's name"):
        loaded(tmp_path, text.replace("core: {", "core: {public_key: core.pub, "))
