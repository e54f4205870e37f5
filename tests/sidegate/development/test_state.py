import datetime as dt
import stat
from pathlib import Path

import pytest
import yaml

from hosting.config import load_config
from hosting.units import Address
from log_format.layout import SegmentHead, encode_segment_head, segment_name
from log_format.note import SignatureType, parse_vkey
from sidegate.commands.serve import SERVICES, _imported
from sidegate.development import addresses, ca, documents
from sidegate.development.addresses import GATEKEEPER, ISSUER, SIDECAR, SIDECAR_TCP
from sidegate.development.services import AddedService
from sidegate.development.state import State, StateError, write_private
from sidegate.public_keys import KeyProblem

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

CONFIGURED = SERVICES.keys() - {"signer"}
"""Here the core holds its key itself: a signer of its own is for production."""


def make(state: State, where: addresses.Addresses, now: dt.datetime = NOW) -> None:
    state.make_folders()
    state.make_keys()
    state.make_certificates(now)
    state.make_documents(where)


@pytest.fixture
def where() -> addresses.Addresses:
    return addresses.chosen({}, {})


@pytest.fixture
def state(tmp_path: Path, where: addresses.Addresses) -> State:
    state = State(tmp_path / ".sidegate")
    make(state, where)
    return state


def contents(state: State) -> dict[str, bytes]:
    return {str(f): f.read_bytes() for f in sorted(state.root.rglob("*")) if f.is_file()}


def test_everything_is_private_to_its_owner(state: State) -> None:
    for path in (state.root, *state.root.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_making_it_again_changes_nothing(state: State, where: addresses.Addresses) -> None:
    before = contents(state)
    make(state, where)
    assert contents(state) == before


def test_a_private_file_is_never_seen_half_written_or_open_to_others(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    write_private(file, b"one")
    write_private(file, b"two")
    assert file.read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["key.pem"]


def test_certificates_are_renewed_in_time_and_keep_their_keys(
    state: State, where: addresses.Addresses
) -> None:
    before = contents(state)
    assert state.make_certificates(NOW + dt.timedelta(days=25)) == [
        leaf.name for leaf in documents.LEAVES
    ]
    changed = {name for name, content in contents(state).items() if before[name] != content}
    assert {Path(name).name for name in changed} == {
        f"{leaf.name}.pem" for leaf in documents.LEAVES
    }


def test_a_root_about_to_end_is_renewed_and_its_leaves_with_it(state: State) -> None:
    late = NOW + ca.ROOT_LIFE
    assert state.make_certificates(late)[0] == "ca"
    assert state.make_certificates(late) == []


def test_moved_addresses_reach_whoever_must_find_them(state: State) -> None:
    moved = addresses.chosen(
        {
            "SIDEGATE_GATEKEEPER_LISTEN": "127.0.0.1:18443",
            "SIDEGATE_ISSUER_LISTEN": "127.0.0.1:18446",
        },
        {},
    )
    state.make_documents(moved)
    sidecar = yaml.safe_load(state.config("sidecar").read_text())
    assert sidecar["gatekeepers"] == ["https://127.0.0.1:18443"]
    assert sidecar["oauth"]["issuer"] == "https://127.0.0.1:18446"
    policy = yaml.safe_load(state.config("policy").read_text())
    assert policy["issuers"]["dev"]["issuer"] == "https://127.0.0.1:18446"


def test_a_file_that_the_user_changed_is_kept_and_its_addresses_count(
    state: State, where: addresses.Addresses
) -> None:
    file = state.config("gatekeeper")
    own = file.read_text().replace(str(where[GATEKEEPER]), "127.0.0.1:28443")
    file.write_text(own)
    found = addresses.chosen({}, state.own_addresses())
    assert found[GATEKEEPER] == Address.parse("127.0.0.1:28443")
    state.make_documents(found)
    assert file.read_text() == own
    assert "https://127.0.0.1:28443" in state.config("sidecar").read_text()


def test_an_own_policy_that_names_another_issuer_is_pointed_out(state: State) -> None:
    file = state.config("policy")
    file.write_text(file.read_text() + "# mine\n")
    moved = addresses.chosen({"SIDEGATE_ISSUER_LISTEN": "127.0.0.1:18446"}, {})
    state.make_documents(moved)
    (sentence,) = state.stale_files(moved)
    assert "issuers.dev.issuer" in sentence
    assert "https://127.0.0.1:18446" in sentence
    assert list(state.stale_files(addresses.chosen({}, {}))) == []


def test_an_own_sidecar_of_a_service_that_names_other_addresses_is_pointed_out(
    state: State, where: addresses.Addresses
) -> None:
    state.write_services([AddedService("payments", 9010)])
    state.make_documents(where)
    file = state.config("payments")
    file.write_text(file.read_text() + "# mine\n")
    assert list(state.stale_files(where)) == []
    moved = addresses.chosen({"SIDEGATE_GATEKEEPER_LISTEN": "127.0.0.1:18443"}, {})
    (sentence,) = state.stale_files(moved)
    assert "payments.yaml names ['https://127.0.0.1:8443'] as gatekeepers" in sentence
    assert "https://127.0.0.1:18443" in sentence


def test_a_registry_that_is_broken_is_named_with_what_to_do(state: State) -> None:
    (state.root / "services.json").write_text("{}")
    with pytest.raises(StateError, match=r"services\.json.*add the services again"):
        state.services()


def test_whether_the_issuer_is_led_to_the_clients_file(state: State) -> None:
    assert state.issuer_reads_clients()
    file = state.config("issuer")
    file.write_text(file.read_text().replace("clients_file: clients.yaml", "clients: {}"))
    assert not state.issuer_reads_clients()


def test_an_own_file_that_is_no_yaml_is_named(state: State) -> None:
    state.config("sidecar").write_text("listen: [")
    with pytest.raises(StateError, match=r"sidecar\.yaml"):
        state.own_addresses()


@pytest.mark.parametrize("service", sorted(CONFIGURED))
def test_each_service_accepts_its_configuration(state: State, service: str) -> None:
    cls = _imported(SERVICES[service][0])
    config = load_config(cls, service=service, path=state.config(service), environ={})
    assert config.environment == "development"


@pytest.mark.parametrize("service", sorted(CONFIGURED))
def test_each_service_refuses_it_outside_development(state: State, service: str) -> None:
    cls = _imported(SERVICES[service][0])
    file = state.config(service)
    file.write_text(file.read_text().replace("environment: development", "environment: production"))
    with pytest.raises(Exception, match="development"):
        load_config(cls, service=service, path=file, environ={})


def test_the_addresses_in_the_configurations_are_the_chosen_ones(state: State) -> None:
    sidecar = yaml.safe_load(state.config("sidecar").read_text())
    assert sidecar["listen"] == str(addresses.chosen({}, {})[SIDECAR])
    issuer = yaml.safe_load(state.config("issuer").read_text())
    assert issuer["issuer"] == documents.url(addresses.chosen({}, {}), ISSUER)


def test_a_sidecar_of_the_users_own_without_tcp_gets_none(state: State) -> None:
    file = state.config("sidecar")
    assert SIDECAR_TCP not in state.own_addresses()
    kept = [line for line in file.read_text().splitlines() if not line.startswith("tcp:")]
    file.write_text("\n".join(kept) + "\nrequire_registration: true\n")
    assert state.own_addresses()[SIDECAR_TCP] is None
    assert SIDECAR_TCP not in addresses.chosen({}, state.own_addresses())


def start_log(state: State, log_id: bytes) -> None:
    """What the core leaves in its data folder when it starts."""
    head = encode_segment_head(SegmentHead(log_id, 0, 0, 1))
    (state.data / "core" / segment_name(0)).write_bytes(head)


def test_public_keys_are_written_once_there_is_a_log_also_in_an_older_folder(state: State) -> None:
    with pytest.raises(KeyProblem, match="start the core once"):
        state.write_public_keys()
    start_log(state, b"\xab" * 16)
    assert state.write_public_keys()
    core = parse_vkey((state.root / "core.pub").read_text().strip())
    gatekeeper = parse_vkey((state.root / "gatekeeper.pub").read_text().strip())
    assert (core.name, core.type) == ("sidegate/" + "ab" * 16, SignatureType.ED25519)
    assert gatekeeper.name == documents.GATEKEEPER_ID
    assert gatekeeper.type is SignatureType.COSIGNATURE_V1
    before = contents(state)
    assert state.write_public_keys()
    assert contents(state) == before


def test_a_key_that_was_renewed_stands_behind_the_old_one(state: State) -> None:
    start_log(state, b"\xab" * 16)
    state.write_public_keys()
    for name in ("core", "gatekeeper"):
        before = (state.root / f"{name}.pub").read_text()
        (state.root / "keys" / f"{name}-signing.pem").unlink()
        state.make_keys()
        assert state.write_public_keys()
        assert state.write_public_keys()
        lines = (state.root / f"{name}.pub").read_text().splitlines()
        assert (len(lines), lines[0]) == (2, before.strip())


def test_a_new_log_below_the_same_key_is_told_of(state: State) -> None:
    start_log(state, b"\xab" * 16)
    state.write_public_keys()
    start_log(state, b"\xcd" * 16)
    assert not state.write_public_keys()
    assert "cdcd" in (state.root / "core.pub").read_text()
