import datetime as dt
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gatekeeper.policy.load import load_policy
from hosting.config import load_config
from sidecar.config import SidecarConfig
from sidegate.development import addresses
from sidegate.development.service_add import FIRST_PORT, AddError, Wanted, add
from sidegate.development.services import AddedService
from sidegate.development.state import State

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def where() -> addresses.Addresses:
    return addresses.chosen({}, {})


@pytest.fixture
def state(tmp_path: Path, where: addresses.Addresses) -> State:
    state = State(tmp_path / ".sidegate")
    make(state, where)
    return state


@pytest.fixture
def port(port_pair: Callable[[], int]) -> int:
    return port_pair()


def make(state: State, where: addresses.Addresses) -> None:
    """As `sidegate up` prepares it."""
    state.make_folders()
    state.make_keys()
    state.make_certificates(NOW)
    state.make_documents(where)


def contents(state: State) -> dict[str, bytes]:
    files = (file for file in sorted(state.root.rglob("*")) if file.is_file())
    return {str(file.relative_to(state.root)): file.read_bytes() for file in files}


def own(state: State, name: str, before: str = "", after: str = "") -> str:
    """Make a file the user's own."""
    file = state.root / name
    file.write_text(file.read_text().replace(before, after) + "# mine\n")
    return file.read_text()


def may(state: State, **wanted: str) -> bool:
    """What the policy file says, after its own tests have passed."""
    from gatekeeper.policy.persona import Personas

    data = state.config("policy").read_bytes()
    policy = load_policy(data, file="p", folder=state.root, environment="development")
    identity = Personas(policy.document).make("payments")
    return policy.decide(identity, wanted["do"], wanted["on"]).allowed  # type: ignore[arg-type]


def test_a_service_gets_everything_that_it_needs(
    state: State, where: addresses.Addresses, port: int
) -> None:
    before = contents(state)
    added = add(state, where, Wanted("payments", port, ["invoices"], ["orders"]), NOW)
    assert added == AddedService("payments", port, ("invoices",), ("orders",))
    after = contents(state)
    assert {name for name in after if after[name] != before.get(name)} == {
        "certs/payments.key",
        "certs/payments.pem",
        "clients.yaml",
        "payments.yaml",
        "policy.yaml",
        "services.json",
    }
    config = load_config(
        SidecarConfig, service="sidecar", path=state.config("payments"), environ={}
    )
    assert str(config.listen) == f"127.0.0.1:{port}"
    assert str(config.tcp) == f"127.0.0.1:{port + 1}"
    assert config.oauth.client_id == "payments"
    assert config.data == state.root / "data" / "payments"
    assert config.data.is_dir()
    assert yaml.safe_load(after["clients.yaml"])["clients"]["payments"]["spiffe"] == added.spiffe_id
    assert may(state, do="publish", on="payments.settled")
    assert may(state, do="subscribe", on="orders")
    assert not may(state, do="publish", on="orders")


def test_the_same_again_changes_nothing(
    state: State, where: addresses.Addresses, port: int
) -> None:
    add(state, where, Wanted("payments", port), NOW)
    before = contents(state)
    assert add(state, where, Wanted("payments"), NOW).port == port
    assert add(state, where, Wanted("payments", port), NOW).port == port
    assert contents(state) == before


def test_a_later_start_with_moved_addresses_keeps_the_service_and_tells_it(
    state: State, where: addresses.Addresses, port: int
) -> None:
    add(state, where, Wanted("payments", port, [], ["orders"]), NOW)
    before = contents(state)
    make(state, where)
    assert contents(state) == before
    moved = addresses.chosen(
        {
            "SIDEGATE_GATEKEEPER_LISTEN": "127.0.0.1:18443",
            "SIDEGATE_ISSUER_LISTEN": "127.0.0.1:18446",
        },
        {},
    )
    make(state, moved)
    sidecar = yaml.safe_load(state.config("payments").read_text())
    assert sidecar["listen"] == f"127.0.0.1:{port}"
    assert sidecar["gatekeepers"] == ["https://127.0.0.1:18443"]
    assert sidecar["oauth"]["issuer"] == "https://127.0.0.1:18446"
    policy = yaml.safe_load(state.config("policy").read_text())
    assert policy["issuers"]["dev"]["issuer"] == "https://127.0.0.1:18446"
    assert may(state, do="subscribe", on="orders")
    assert "payments" in yaml.safe_load(state.config("clients").read_text())["clients"]


def test_files_of_the_users_own_are_added_to_and_stay_the_users_own(
    state: State, where: addresses.Addresses, port: int
) -> None:
    policy, clients = own(state, "policy.yaml"), own(state, "clients.yaml")
    add(state, where, Wanted("payments", port), NOW)
    assert may(state, do="publish", on="payments")
    for name, before in (("policy.yaml", policy), ("clients.yaml", clients)):
        after = (state.root / name).read_text()
        assert "payments" in after
        assert state.is_own(name)
        lines = iter(after.splitlines())
        assert all(line in lines for line in before.splitlines())
    before = contents(state)
    make(state, where)
    add(state, where, Wanted("payments"), NOW)
    assert contents(state) == before


def test_what_the_user_took_away_stays_away(
    state: State, where: addresses.Addresses, port: int
) -> None:
    add(state, where, Wanted("payments", port), NOW)
    own(state, "policy.yaml", ", replay: [payments]", "")
    assert not may(state, do="replay", on="payments")
    add(state, where, Wanted("payments", None, ["invoices"]), NOW)
    assert may(state, do="publish", on="invoices")
    assert not may(state, do="replay", on="payments")


def test_more_rights_are_added_to_those_from_before(
    state: State, where: addresses.Addresses, port: int
) -> None:
    add(state, where, Wanted("payments", port, ["invoices"]), NOW)
    add(state, where, Wanted("payments", None, [], ["orders"]), NOW)
    assert may(state, do="publish", on="invoices")
    assert may(state, do="subscribe", on="orders")


def test_its_certificate_is_renewed_with_the_others(
    state: State, where: addresses.Addresses, port: int
) -> None:
    add(state, where, Wanted("payments", port), NOW)
    assert "payments" in state.make_certificates(NOW + dt.timedelta(days=25))


def test_it_can_be_added_before_the_first_start(
    tmp_path: Path, where: addresses.Addresses, port: int
) -> None:
    state = State(tmp_path / "new")
    state.make_folders()
    add(state, where, Wanted("payments", port), NOW)
    assert may(state, do="publish", on="payments")
    assert (state.root / "certs" / "gatekeeper.pem").exists()


def test_ports_are_chosen_apart_from_each_other_and_from_the_mesh(
    state: State, where: addresses.Addresses
) -> None:
    first = add(state, where, Wanted("payments"), NOW).port
    second = add(state, where, Wanted("billing"), NOW).port
    assert FIRST_PORT <= first < second


def test_a_port_of_its_own_can_be_changed(
    state: State, where: addresses.Addresses, port: int, port_pair: Callable[[], int]
) -> None:
    add(state, where, Wanted("payments", port), NOW)
    other = port_pair()
    assert add(state, where, Wanted("payments", other), NOW).port == other
    assert f":{other}" in state.config("payments").read_text()


@pytest.mark.parametrize("name", ["policy.yaml", "clients.yaml", "payments.yaml", "issuer.yaml"])
def test_what_can_not_be_added_changes_nothing(
    state: State, where: addresses.Addresses, port: int, name: str
) -> None:
    broken = {
        "policy.yaml": "version: 1\nissuers: {}\n",
        "clients.yaml": "clients: {payments: {spiffe: spiffe://sidegate-dev/other}}\n",
        "payments.yaml": "a letter of mine\n",
        "issuer.yaml": state.config("issuer").read_text().replace("clients_file", "# clients_file"),
    }
    (state.root / name).write_text(broken[name])
    before = contents(state)
    with pytest.raises(AddError, match=name):
        add(state, where, Wanted("payments", port), NOW)
    assert contents(state) == before


def test_a_policy_whose_tests_would_fail_is_not_written(
    state: State, where: addresses.Addresses, port: int
) -> None:
    file = state.config("policy")
    deny = '  - {id: D2, who: [payments], do: [publish], on: ">"}\ntests:\n'
    with_principal = file.read_text().replace(
        "principals:\n",
        'principals:\n  payments: {spiffe: "spiffe://sidegate-dev/app/payments", '
        "issuer: dev, client_id: payments}\n",
    )
    file.write_text(
        with_principal.replace("tests:\n", deny)
        + "  - {as: payments, do: publish, on: invoices, expect: deny}\n"
    )
    add(state, where, Wanted("payments", port, ["invoices"]), NOW)
    file.write_text(with_principal + "  - {as: payments, do: publish, on: x, expect: deny}\n")
    before = contents(state)
    with pytest.raises(AddError, match=r"expected deny, but payments may publish on x"):
        add(state, where, Wanted("payments", None, ["x"]), NOW)
    assert contents(state) == before


def test_a_taken_port_is_refused_with_who_has_it(
    state: State, where: addresses.Addresses, port: int
) -> None:
    add(state, where, Wanted("payments", port), NOW)
    for taken, why in (
        (port, "the service payments"),
        (port + 1, "the service payments"),
        (port - 1, "the service payments"),
        (8443, "the gatekeeper's API"),
        (9001, "the sidecar's TCP port"),
    ):
        with pytest.raises(AddError, match=why):
            add(state, where, Wanted("billing", taken), NOW)
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(AddError, match="another program"),
    ):
        add(state, where, Wanted("billing", other.getsockname()[1]), NOW)
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(AddError, match="another program"),
    ):
        add(state, where, Wanted("billing", other.getsockname()[1] - 1), NOW)


def test_a_sidecar_of_the_users_own_keeps_its_address(
    state: State, where: addresses.Addresses, port: int
) -> None:
    service = add(state, where, Wanted("payments", port), NOW)
    own(state, "payments.yaml", f":{port}", ":1234")
    assert state.listen_of(service) == "127.0.0.1:1234"
    with pytest.raises(AddError, match="change its `listen` there"):
        add(state, where, Wanted("payments", port + 1), NOW)
