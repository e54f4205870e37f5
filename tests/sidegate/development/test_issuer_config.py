from pathlib import Path

import pytest
import yaml

from hosting.config import ConfigError, load_config
from sidegate.development.issuer_config import IssuerConfig

GOOD = {
    "environment": "development",
    "tls": {"certificate": "a.pem", "key": "a.key", "ca": "ca.pem"},
    "issuer": "https://127.0.0.1:8446",
    "keys": "keys.json",
    "clients": {"dev-app": {"spiffe": "spiffe://sidegate-dev/app/dev", "scopes": ["log.publish"]}},
}


def load(folder: Path, **changes: object) -> IssuerConfig:
    file = folder / "issuer.yaml"
    file.write_text(yaml.safe_dump({**GOOD, **changes}))
    return load_config(IssuerConfig, service="issuer", path=file, environ={})


def test_a_sound_file_is_read(tmp_path: Path) -> None:
    config = load(tmp_path, token_ttl="5m")
    assert config.token_ttl == 300
    assert config.keys == tmp_path / "keys.json"
    assert config.clients["dev-app"].scopes == ("log.publish",)


def test_clients_may_be_in_a_file_of_their_own_but_must_be_somewhere(tmp_path: Path) -> None:
    config = load(tmp_path, clients={}, clients_file="clients.yaml")
    assert config.clients_file == tmp_path / "clients.yaml"
    with pytest.raises(ConfigError, match="name at least one client here, or a clients_file"):
        load(tmp_path, clients={})


def test_it_runs_nowhere_but_in_development(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be development"):
        load(tmp_path, environment="production")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"issuer": "http://127.0.0.1:8446"}, "issuer"),
        ({"issuer": "https://127.0.0.1:8446/"}, "issuer"),
        ({"issuer": "https://127.0.0.1:8446?x=1"}, "issuer"),
        ({"token_ttl": "0s"}, "token_ttl"),
        ({"token_ttl": "2h"}, "token_ttl"),
        ({"listen": "unix:issuer.sock"}, "listen"),
        ({"clients": {"a": {"spiffe": "dev"}}}, "clients.a.spiffe"),
        ({"clients": {"a": {"spiffe": "spiffe://x/y", "claims": {"sub": "root"}}}}, "claims.sub"),
        ({"clients": {"a": {"spiffe": "spiffe://x/y", "scopes": ["a b"]}}}, "scopes"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, changes: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load(tmp_path, **changes)
