"""deploy/compose.yaml is whole, and its mesh carries a message.

Where no container engine is at hand, its services run as plain processes with the files that it
mounts, in a network of the test's own in which the services' names are this machine's.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BUILT = {name: one["build"]["target"] for name, one in SERVICES.items() if "build" in one}
SHOP, MAILER = "http://127.0.0.1:9000", "127.0.0.1:9010"
READY_S_MAX = 60.0
MESH = ("core", "issuer", "gatekeeper", "shop-sidecar", "mailer-sidecar")


def mounts(service: str) -> list[tuple[str, str]]:
    return [tuple(one.split(":")[:2]) for one in SERVICES[service].get("volumes", [])]  # type: ignore[misc]


def test_every_file_that_is_mounted_and_every_target_that_is_built_exists() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    for target in BUILT.values():
        assert f" AS {target}\n" in dockerfile
    for service in SERVICES:
        for source, _ in mounts(service):
            if source.startswith("."):
                assert (FOLDER / source).exists(), f"{service}: {source}"
            else:
                assert source in COMPOSE["volumes"], f"{service}: {source}"


def test_every_service_is_hardened_and_every_foreign_image_has_an_exact_tag() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        if "image" in service:
            assert re.search(r":v?\d+\.\d+\.\d+", service["image"]), name


def test_no_sidecar_shares_a_network_with_the_core() -> None:
    inside = {name for name, one in SERVICES.items() if "inside" in one.get("networks", [])}
    assert inside == {"core", "gatekeeper", "prometheus"}
    assert COMPOSE["networks"]["inside"] == {"internal": True}


def test_only_this_machine_reaches_what_is_published() -> None:
    published = [port for one in SERVICES.values() for port in one.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


class Network:
    """A network in which the services' names are loopback, and nothing else can be reached."""

    def __init__(self, folder: Path) -> None:
        hosts = folder / "hosts"
        hosts.write_text("127.0.0.1 localhost core issuer gatekeeper\n")
        setup = f"ip link set lo up && mount --bind {hosts} /etc/hosts && echo made && exec cat"
        # It lasts as long as its `cat`, which ends with the pipe to it.
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "sh", "-c", setup],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"made\n"
        self._enter = ["nsenter", "--target", str(self._holder.pid), "--mount", "--net"]
        self._stack = ExitStack()

    def start(self, *command: str, log: Path, **environ: str) -> "subprocess.Popen[str]":
        errors = self._stack.enter_context(log.open("w"))
        process = subprocess.Popen(
            [*self._enter, *command],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        self._stack.callback(_end, process)
        return process

    def run(self, *command: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._enter, *command],
            cwd=ROOT,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
        )

    def wait_until_ready(self, url: str, *options: str) -> None:
        end = time.monotonic() + READY_S_MAX
        while True:
            done = self.run(sys.executable, "-m", "sidegate", "health", url, *options)
            if done.returncode == 0:
                return
            assert time.monotonic() < end, f"{url}: {done.stderr}"

    def close(self) -> None:
        self._stack.close()
        self._holder.communicate()


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    process.communicate(timeout=60)


def can_isolate() -> bool:
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return False
    return subprocess.run(["unshare", "--mount", "--net", "true"], check=False).returncode == 0


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    if not can_isolate():
        pytest.skip("needs root, unshare, nsenter and ip for a network of its own")
    made = Network(tmp_path)
    try:
        yield made
    finally:
        made.close()


def lay_out(folder: Path) -> dict[str, list[str]]:
    """Each service's files as it would find them, and the command that it runs."""
    identity, commands = folder / "identity", {}
    prepare = [sys.executable, str(FOLDER / "compose" / "prepare.py"), str(identity)]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(prepare, check=True, env=path, stdout=subprocess.DEVNULL)
    for service in MESH:
        etc, var = folder / service / "etc", folder / service / "var"
        etc.mkdir(parents=True)
        var.mkdir()
        (etc / "identity").symlink_to(identity)
        for source, target in mounts(service):
            if source.startswith("."):
                text = (FOLDER / source).read_text().replace("/var/lib/sidegate", str(var))
                (etc / Path(target).name).write_text(text)
        config = str(etc / f"{BUILT[service]}.yaml")
        commands[service] = [sys.executable, "-m", "sidegate", BUILT[service], "--config", config]
    return commands


def write_public_key(network: Network, folder: Path) -> None:
    """What the service `public-key` does."""
    config = str(folder / "core" / "etc" / "core.yaml")
    done = network.run(sys.executable, "-m", "sidegate", "public-key", "core", "--config", config)
    assert done.returncode == 0, done.stderr
    (folder / "identity" / "core.pub").write_text(done.stdout)
    line = SERVICES["public-key"]["entrypoint"][-1]
    assert line == "sidegate public-key core --config /etc/sidegate/core.yaml > /identity/core.pub"


def test_an_order_of_the_shop_reaches_the_mailer_and_nobody_else_may_publish_one(
    network: Network, tmp_path: Path
) -> None:
    for service, command in lay_out(tmp_path).items():
        if service == "gatekeeper":
            network.wait_until_ready("http://core:7444")
            write_public_key(network, tmp_path)
        environ = {}
        if service == "mailer-sidecar":
            # In compose each sidecar has a localhost of its own.
            environ = {
                "SIDEGATE_SIDECAR_LISTEN": MAILER,
                "SIDEGATE_SIDECAR_HEALTH": "127.0.0.1:9012",
            }
        network.start(*command, log=tmp_path / f"{service}.log", **environ)
    ca = str(tmp_path / "identity" / "ca" / "ca.pem")
    network.wait_until_ready("https://issuer:8446", "--ca", ca)
    for url in ("http://core:7444", "http://gatekeeper:8445", SHOP, f"http://{MAILER}"):
        network.wait_until_ready(url)
    app = ROOT / "examples" / "python"
    mailer = network.start(
        sys.executable,
        str(app / "subscribe.py"),
        "orders",
        "earliest",
        log=tmp_path / "mailer.log",
        SIDEGATE_URL=f"http://{MAILER}",
    )
    publish = [sys.executable, str(app / "publish.py"), "orders", '{"order_id": 1}']
    placed = network.run(*publish, SIDEGATE_URL=SHOP)
    assert placed.returncode == 0, placed.stderr
    assert mailer.stdout is not None
    received = json.loads(mailer.stdout.readline())
    assert (received["message"], received["principal"]) == ({"order_id": 1}, "shop")
    denied = network.run(*publish, SIDEGATE_URL=f"http://{MAILER}")
    assert denied.returncode == 1
    assert "mailer" in denied.stderr
