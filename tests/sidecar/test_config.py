"""The sidecar's configuration: what is needed, what is safe by default, and what is refused."""

from dataclasses import fields, is_dataclass

import pytest

from hosting.config import ConfigError, load_config
from sidecar.config import SidecarConfig

LEAST = {
    "tls": "{certificate: app.pem, key: app.key, ca: ca.pem}",
    "gatekeepers": "[https://gatekeeper.example:8443]",
    "gatekeeper_id": "spiffe://example.org/gatekeeper",
    "oauth": "{issuer: https://issuer.example, client_id: app}",
    "data": "data",
}


@pytest.fixture
def load(tmp_path):
    def load_(environ=None, **changes):
        lines = {**LEAST, **changes}
        file = tmp_path / "sidecar.yaml"
        file.write_text("".join(f"{key}: {value}\n" for key, value in lines.items() if value))
        return load_config(SidecarConfig, service="sidecar", path=file, environ=environ or {})

    return load_


def test_the_least_that_is_needed_makes_a_sidecar_for_this_machine_alone(load, tmp_path):
    config = load()
    assert str(config.listen) == "127.0.0.1:9000"
    assert config.environment == "production"
    assert config.allow_remote is False
    assert config.overflow == "wait"
    assert config.oauth.method == "tls_client_auth"
    assert config.limits.message_bytes_max == 1024 * 1024
    assert config.batch.linger == 0.0
    assert config.data == tmp_path / "data"
    assert config.tls.key == tmp_path / "app.key"


@pytest.mark.parametrize("key", LEAST)
def test_each_of_these_is_needed_and_named_where_it_is_missing(load, key):
    with pytest.raises(ConfigError, match=key):
        load(**{key: None})


REFUSED = {
    "a list without gatekeepers": ({"gatekeepers": "[]"}, "gatekeepers"),
    "a gatekeeper in the clear": ({"gatekeepers": "[http://g.example:8443]"}, "gatekeepers"),
    "a gatekeeper with a path": ({"gatekeepers": "[https://g.example/v1]"}, "gatekeepers"),
    "a gatekeeper with a query": ({"gatekeepers": "['https://g.example?a=b']"}, "gatekeepers"),
    "a gatekeeper without a host": ({"gatekeepers": "['https://:8443']"}, "gatekeepers"),
    "a gatekeeper with a password": ({"gatekeepers": "['https://u:p@g.example']"}, "gatekeepers"),
    "a gatekeeper with no port": ({"gatekeepers": "['https://g.example:x']"}, "gatekeepers"),
    "a port out of range": ({"gatekeepers": "['https://g.example:65536']"}, "gatekeepers"),
    "half an address": ({"gatekeepers": "['https://[::1']"}, "gatekeepers"),
    "an identity that is none": ({"gatekeeper_id": "gatekeeper"}, "gatekeeper_id"),
    "the development identity": ({"gatekeeper_id": "spiffe://sidegate-dev/g"}, "gatekeeper_id"),
    "tokens in the clear": ({"oauth": "{issuer: http://i.example, client_id: a}"}, "issuer"),
    "half an issuer": ({"oauth": "{issuer: 'https://[', client_id: a}"}, "issuer"),
    "an issuer on this machine": (
        {"oauth": "{issuer: https://localhost:8446, client_id: a}"},
        "issuer",
    ),
    "a signature without a key": (
        {"oauth": "{issuer: https://i.example, client_id: a, method: private_key_jwt}"},
        "key",
    ),
    "an unknown method": (
        {"oauth": "{issuer: https://i.example, client_id: a, method: secret}"},
        "method",
    ),
    "an open port": ({"listen": "0.0.0.0:9000"}, "listen"),
    "an address of the network": ({"listen": "192.0.2.1:9000"}, "listen"),
    "a name that may be anywhere": ({"listen": "sidecar.example:9000"}, "listen"),
    "an unknown overflow": ({"overflow": "drop"}, "overflow"),
    "an unknown key": ({"listen_on": "127.0.0.1:9000"}, "listen_on"),
    "a batch too small": ({"batch": "{bytes_max: 1023}"}, "batch.bytes_max"),
    "a batch too large": ({"batch": "{bytes_max: 1GiB}"}, "batch.bytes_max"),
    "a long linger": ({"batch": "{linger: 11s}"}, "batch.linger"),
    "no message at all": ({"limits": "{message_bytes_max: 0}"}, "limits.message_bytes_max"),
    "a huge message": ({"limits": "{message_bytes_max: 9MiB}"}, "limits.message_bytes_max"),
    "a ring without a place": ({"limits": "{ring_entries_max: 0}"}, "limits.ring_entries_max"),
    "a ring for no message": ({"limits": "{ring_bytes_max: 1KiB}"}, "limits.ring_bytes_max"),
    "no connection": ({"limits": "{connections_max: 0}"}, "limits.connections_max"),
    "no stream": ({"limits": "{streams_max: 0}"}, "limits.streams_max"),
    "no request": ({"limits": "{requests_in_flight_max: 0}"}, "limits.requests_in_flight_max"),
    "a request beyond the wire": ({"limits": "{request_bytes_max: 25MiB}"}, "request_bytes_max"),
    "no time": ({"limits": "{timeout: 0s}"}, "limits.timeout"),
    "more time than there may be": ({"limits": "{timeout: 10m}"}, "limits.timeout"),
    "a spool of one segment": ({"spool": "{bytes_max: 20MiB}"}, "spool.bytes_max"),
    "tiny segments": ({"spool": "{segment_bytes: 1KiB}"}, "spool.segment_bytes"),
    "a drain that never ends": ({"spool": "{drain_bytes_per_s: 1}"}, "spool.drain_bytes_per_s"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_or_is_not_safe_is_refused_by_its_key(load, case):
    changes, names = REFUSED[case]
    with pytest.raises(ConfigError) as caught:
        load(**changes)
    assert any(names in str(problem) for problem in caught.value.problems), str(caught.value)
    assert "sidecar.yaml" in str(caught.value)


def test_all_problems_are_told_at_once(load):
    with pytest.raises(ConfigError) as caught:
        load(gatekeepers="[]", overflow="drop", batch="{linger: 11s}", nope="1")
    assert len(caught.value.problems) >= 3


@pytest.mark.parametrize(
    "listen", ["127.0.0.1:0", "127.9.9.9:9000", "localhost:9000", "'[::1]:9000'", "unix:app.sock"]
)
def test_addresses_of_this_machine_need_no_permission(load, listen):
    assert load(listen=listen).allow_remote is False


def test_other_machines_are_let_in_only_where_that_is_said(load):
    config = load(listen="0.0.0.0:9000", allow_remote="true")
    assert config.listen.host == "0.0.0.0"


def test_development_may_use_its_own_identities_and_issuer(load):
    config = load(
        environment="development",
        gatekeeper_id="spiffe://sidegate-dev/gatekeeper",
        oauth="{issuer: https://localhost:8446, client_id: dev-app}",
    )
    assert config.oauth.issuer == "https://localhost:8446"


def test_the_environment_overrides_the_file(load):
    config = load(
        environ={
            "SIDEGATE_SIDECAR_LISTEN": "127.0.0.1:9100",
            "SIDEGATE_SIDECAR_LIMITS__MESSAGE_BYTES_MAX": "2MiB",
            "SIDEGATE_SIDECAR_BATCH__LINGER": "5ms",
        }
    )
    assert str(config.listen) == "127.0.0.1:9100"
    assert config.limits.message_bytes_max == 2 * 1024 * 1024
    assert config.batch.linger == 0.005


def test_no_part_of_it_can_be_changed(load):
    config = load()
    for part in (config, *(getattr(config, each.name) for each in fields(config))):
        if is_dataclass(part):
            with pytest.raises(AttributeError):
                setattr(part, fields(part)[0].name, None)
