import asyncio
from pathlib import Path

import pytest

from hosting.lifecycle import StartError
from sidegate.development.issuer import Client
from sidegate.development.issuer_clients import ClientsFile, key_set
from sidegate.development.issuer_config import ClientConfig
from sidegate.development.state import write_private

ONE = "clients:\n  one: {spiffe: spiffe://x/one, scopes: [a]}\n"
TWO = ONE + "  two: {spiffe: spiffe://x/two, claims: {team: dev}}\n"
FIXED = {"fixed": ClientConfig("spiffe://x/fixed")}


class Taken:
    """Keeps what was taken up, and says when."""

    def __init__(self) -> None:
        self.clients: list[list[str]] = []
        self.news = asyncio.Event()

    def __call__(self, clients: list[Client]) -> None:
        self.clients.append([client.client_id for client in clients])
        self.news.set()


def remove(file: Path) -> None:
    file.unlink()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "clients.yaml"
    path.write_text(ONE)
    return path


async def test_a_changed_file_is_taken_up_while_it_runs(file: Path) -> None:
    taken = Taken()
    clients = ClientsFile(file, FIXED, taken, poll_s=0.01)
    await clients.start()
    assert taken.clients == [["fixed", "one"]]
    taken.news.clear()
    write_private(file, TWO.encode())
    await taken.news.wait()
    assert taken.clients[-1] == ["fixed", "one", "two"]
    await clients.drain()
    await clients.stop()


async def test_a_broken_file_leaves_the_last_good_clients_in_force(file: Path) -> None:
    taken = Taken()
    clients = ClientsFile(file, {}, taken, poll_s=3600)
    await clients.start()
    for text in ("clients: [", "clients: {one: {spifffe: x}}\n", "other: 1\n"):
        write_private(file, text.encode())
        clients.poll()
        assert taken.clients == [["one"]]
        readiness = clients.readiness()
        assert readiness.ready
        assert "clients.yaml" in str(readiness.detail["error"])
    remove(file)
    clients.poll()
    assert "error" in clients.readiness().detail
    write_private(file, TWO.encode())
    clients.poll()
    assert clients.readiness().detail == {"clients": 2}
    await clients.stop()


async def test_a_file_that_did_not_change_is_not_read_again(file: Path) -> None:
    taken = Taken()
    clients = ClientsFile(file, {}, taken, poll_s=3600)
    await clients.start()
    clients.poll()
    assert len(taken.clients) == 1
    await clients.stop()


async def test_a_file_that_is_broken_at_the_start_ends_it(file: Path) -> None:
    write_private(file, b"clients: {one: {}}\n")
    with pytest.raises(StartError, match="spiffe"):
        await ClientsFile(file, {}, Taken()).start()
    with pytest.raises(StartError, match="can't be read"):
        await ClientsFile(file.with_name("nowhere.yaml"), {}, Taken()).start()


async def test_a_client_in_two_places_is_refused(file: Path) -> None:
    fixed = {"one": ClientConfig("spiffe://x/one")}
    with pytest.raises(StartError, match=r"clients\.one is in the issuer's configuration too"):
        await ClientsFile(file, fixed, Taken()).start()


async def test_without_a_file_the_configured_clients_are_all() -> None:
    taken = Taken()
    clients = ClientsFile(None, FIXED, taken)
    await clients.start()
    assert taken.clients == [["fixed"]]
    await clients.stop()


async def test_a_clients_keys_that_can_not_be_read_are_named(file: Path) -> None:
    write_private(file, b"clients: {one: {spiffe: spiffe://x/one, keys: keys.json}}\n")
    with pytest.raises(StartError, match=r"keys\.json"):
        await ClientsFile(file, {}, Taken()).start()
    with pytest.raises(StartError, match=r"clients\.yaml holds no JWK Set"):
        key_set(file)
