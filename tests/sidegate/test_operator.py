import json
from pathlib import Path
from typing import Any

import pytest

from sidegate.operator import OPERATOR, NoSecret, Operator, read_secret, running_admin


def test_a_secret_is_read_without_its_newline(tmp_path: Path) -> None:
    file = tmp_path / "local"
    file.write_text("abc\n")
    assert read_secret(file) == "abc"


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
def test_a_file_without_a_secret_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "local"
    file.write_bytes(content)
    with pytest.raises(NoSecret, match="local"):
        read_secret(file)
    with pytest.raises(NoSecret, match="--secret"):
        read_secret(tmp_path / "nowhere")


def test_the_admin_port_of_the_running_mesh_is_found(tmp_path: Path) -> None:
    assert running_admin(tmp_path) is None
    (tmp_path / "run").mkdir()
    record = tmp_path / "run" / "up.json"
    record.write_text(json.dumps({"addresses": {"SIDEGATE_GATEKEEPER_ADMIN": "127.0.0.1:1"}}))
    assert running_admin(tmp_path) == "http://127.0.0.1:1"
    for text in ("{}", "[]", '{"addresses": 1}', "{"):
        record.write_text(text)
        assert running_admin(tmp_path) is None


def test_the_development_gatekeeper_knows_its_operator(mesh: Any) -> None:
    url = running_admin(mesh.state)
    assert url is not None
    with Operator(url, read_secret(mesh.state / OPERATOR)) as operator:
        assert operator.ask("GET", "/policy").document()["file"] == "policy.yaml"
    with Operator(url, "x" * 64) as stranger:
        assert stranger.ask("GET", "/policy").status == 401
