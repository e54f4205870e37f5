"""A second service beside the first: orders → payments, a denial, its explanation, its end."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from sidegate.development.state import State

Add = Callable[..., Any]
Start = Callable[..., Any]


def test_orders_reach_payments_and_a_denial_is_explained_and_mended(
    start_mesh: Start, add_service: Add, command: Any
) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    payments = add_service(mesh, "payments", "--subscribe", "orders")

    # orders → payments
    assert mesh.publish("orders", {"order_id": 103})[0] == 200
    status, page = payments.request("GET", "/messages/orders")
    assert status == 200, page
    assert [(m["message"], m["principal"]) for m in page["messages"]] == [
        ({"order_id": 103}, "dev-app")
    ]
    assert payments.publish("payments.settled", 103)[0] == 200
    assert mesh.messages("payments.settled")[0]["principal"] == "payments"

    # A denial, and why.
    status, problem = payments.publish("invoices", 103)
    assert (status, problem["code"]) == (403, "denied")
    explained = command(
        "policy", "explain", "--as", "payments", "--do", "publish", "--on", "invoices"
    )
    assert explained.returncode == 1
    assert "no rule allows it" in explained.stdout
    assert "add an entry for invoices" in explained.stdout

    # The entry that it advises, written by hand, takes effect without a restart.
    file = mesh.state / "policy.yaml"
    text = file.read_text()
    file.write_text(
        text.replace("topics:\n", "topics:\n  # By hand.\n  invoices: {publish: [payments]}\n")
    )
    payments.until(lambda: payments.publish("invoices", 103)[0] == 200)

    # The file is the user's now: another service is put in, and nothing of it is lost.
    done = command("service", "add", "billing", "--subscribe", "invoices", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mesh"] == "ready"
    after = file.read_text()
    assert "  # By hand.\n  invoices: {publish: [payments], subscribe: [billing]}\n" in after
    assert payments.publish("invoices", 104)[0] == 200


def test_a_restart_on_other_ports_keeps_the_service(start_mesh: Start, add_service: Add) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    add_service(mesh, "payments", "--publish", "invoices")
    before = mesh.record()["addresses"]
    mesh.interrupt()
    assert mesh.wait() == 0
    again = start_mesh()
    again.wait_for("ready")
    assert again.record()["addresses"]["SIDEGATE_ISSUER_LISTEN"] != before["SIDEGATE_ISSUER_LISTEN"]
    payments = add_service(again, "payments")
    assert payments.publish("invoices", 1)[0] == 200
    assert payments.publish("orders", 1)[0] == 403


def test_a_running_mesh_takes_a_service_up_without_a_restart(mesh: Any, in_mesh: Any) -> None:
    pids = {name: mesh.pid_of(name) for name in ("issuer", "gatekeeper")}
    done = in_mesh("service", "add", "taken-up")
    assert done.returncode == 0, done.stderr
    assert "The running mesh knows it." in done.stdout
    assert "sidecar --config .sidegate/taken-up.yaml" in done.stdout
    assert re.search(r"curl -s localhost:\d+/publish -d '\{\"topic\":\"taken-up\"", done.stdout)
    assert re.search(r"curl -sN localhost:\d+/subscribe/taken-up", done.stdout)
    assert {name: mesh.pid_of(name) for name in pids} == pids


def test_the_same_again_changes_no_file(mesh: Any, in_mesh: Any) -> None:
    first = in_mesh("service", "add", "idempotent", "--subscribe", "orders", "--json")
    files = sorted(file for file in mesh.state.glob("*.*") if file.is_file())
    before = {file: file.read_bytes() for file in files}
    again = in_mesh("service", "add", "idempotent", "--subscribe", "orders", "--json")
    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert {file: file.read_bytes() for file in files} == before


def test_before_the_first_start_it_says_to_start_the_mesh(command: Any) -> None:
    done = command("service", "add", "payments")
    assert done.returncode == 0, done.stderr
    assert "Start the mesh with `make up`" in done.stdout
    assert json.loads(command("service", "add", "payments", "--json").stdout)["mesh"] == "down"
    assert [service.name for service in State(command.folder / ".sidegate").services()] == [
        "payments"
    ]


def test_added_services_are_listed_with_whether_they_run(
    mesh: Any, in_mesh: Any, add_service: Add
) -> None:
    running = add_service(mesh, "listed")
    assert in_mesh("service", "add", "idle").returncode == 0
    listed = json.loads(in_mesh("service", "list", "--json").stdout)["services"]
    found = {service["name"]: service for service in listed}
    assert (found["listed"]["ready"], found["listed"]["url"]) == (True, running.url)
    assert found["idle"]["ready"] is False
    shown = in_mesh("service", "list").stdout
    assert re.search(r"^idle .*not running$", shown, re.MULTILINE)


def test_with_none_the_list_says_how_to_add_one(command: Any) -> None:
    assert "service add NAME" in command("service", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["Payments"], "no service's name"),
        (["core"], "uses itself"),
        (["payments", "--publish", ">"], "no name at its beginning"),
        (["payments", "--subscribe", "_audit"], "system topic"),
        (["payments", "--port", "70000"], "70000"),
        ([], "NAME"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error_and_makes_nothing(
    command: Any, arguments: list[str], why: str
) -> None:
    done = command("service", "add", *arguments)
    assert done.returncode == 2
    assert why in done.stderr
    assert not (command.folder / ".sidegate").exists()


def test_a_file_that_can_not_be_added_to_is_named_with_what_to_do(command: Any) -> None:
    assert command("service", "add", "payments").returncode == 0
    file = command.folder / ".sidegate" / "policy.yaml"
    file.write_text("version: 1\nprincipals: {payments: {spiffe: spiffe://sidegate-dev/x}}\n")
    done = command("service", "add", "payments")
    assert done.returncode == 2
    assert "policy.yaml is yours" in done.stderr
    assert "principals.payments is somebody else already" in done.stderr
