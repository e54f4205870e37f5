"""Asked of a mesh that runs: does it know a service?"""

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

from sidegate.development import addresses
from sidegate.development.introduction import ask, introduce
from sidegate.development.services import AddedService
from sidegate.development.state import State


def where(mesh: Any) -> addresses.Addresses:
    return addresses.chosen(mesh.record()["addresses"], {})


def stranger(mesh: Any, folder: Path) -> State:
    """A state folder with the mesh's CA and a service that the mesh was never told of."""
    state = State(folder)
    state.make_folders()
    for name in ("ca/ca.pem", "ca/ca.key", "policy.yaml"):
        shutil.copy(mesh.state / name, state.root / name)
    state.write_services([AddedService("stranger", 9010)])
    state.make_certificates(dt.datetime.now(dt.UTC))
    return state


def test_a_service_that_was_added_is_known(mesh: Any, in_mesh: Any) -> None:
    done = in_mesh("service", "add", "introduced", "--json")
    assert done.returncode == 0, done.stderr
    verdict = introduce(State(mesh.state), where(mesh), AddedService("introduced", 9010))
    assert verdict.ready, verdict


def test_one_that_the_issuer_was_not_told_of_is_not(mesh: Any, tmp_path: Path) -> None:
    verdict = ask(stranger(mesh, tmp_path), where(mesh), AddedService("stranger", 9010))
    assert not verdict.ready
    assert verdict.reason == "the issuer says: The client does not exist on this server."


def test_a_mesh_with_another_policy_does_not_know_it_yet(mesh: Any, tmp_path: Path) -> None:
    state = stranger(mesh, tmp_path)
    for end in ("pem", "key"):
        shutil.copy(
            mesh.state / "certs" / f"sidecar.{end}", state.root / "certs" / f"dev-app.{end}"
        )
    app = AddedService("dev-app", 9000)
    assert ask(state, where(mesh), app).ready
    policy = state.config("policy")
    policy.write_text(policy.read_text() + "# changed\n")
    verdict = ask(state, where(mesh), app)
    assert verdict.reason == "the gatekeeper has not taken up the policy"


def test_where_nothing_listens_the_reason_says_so(mesh: Any, tmp_path: Path) -> None:
    nowhere = addresses.free_addresses()
    verdict = ask(stranger(mesh, tmp_path), nowhere, AddedService("stranger", 9010))
    assert not verdict.ready
    assert "nothing answers at https://127.0.0.1:" in verdict.reason
