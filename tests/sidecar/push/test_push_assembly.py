"""The guard knows every port of Sidegate's that the configuration names."""

from ipaddress import ip_address

import pytest

from hosting.lifecycle import StartError
from hosting.units import Address
from sidecar.config import PushConfig
from sidecar.errors import ForbiddenDestination
from sidecar.push.destination import parse_target
from sidecar.push.push_assembly import guard_of


async def test_every_port_of_its_own_is_refused(mesh):
    config = mesh.config(
        listen=Address.parse("127.0.0.1:5001"),
        tcp=Address.parse("127.0.0.1:5002"),
        health=Address.parse("127.0.0.1:5003"),
    )
    guard = guard_of(config, lambda: 5004)
    known = (mesh.gatekeeper.listening.port, mesh.issuer.listening.port)
    for port in (5001, 5002, 5003, 5004, *known):
        with pytest.raises(ForbiddenDestination):
            guard.check_address(parse_target(f"http://x:{port}/"), ip_address("127.0.0.1"))
    guard.check_address(parse_target("http://x:5005/"), ip_address("127.0.0.1"))


async def test_a_ca_that_is_none_stops_the_start(mesh):
    from sidecar.service import assemble

    bad = mesh.folder / "none.pem"
    with pytest.raises(StartError, match=r"push\.ca"):
        assemble(mesh.config(push=PushConfig(ca=bad)))
