"""`sidegate up`: the whole mesh on one machine, as separate processes, ready to be used."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click

from sidegate.commands.options import CouldNotRun, state_option
from sidegate.development import addresses, ca
from sidegate.development.console import Console, Event
from sidegate.development.room import NoRoom, check_disk, writing
from sidegate.development.runner import Mesh, hold_signals
from sidegate.development.running import AlreadyUpError, BusyError, LeftoversError, Running
from sidegate.development.state import State, StateError


@click.command()
@state_option
@click.option(
    "--ports",
    type=click.Choice(["fixed", "free"]),
    default="fixed",
    show_default=True,
    help="fixed: the default ports or the SIDEGATE_… variables'; free: whichever are free.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every log line of the services.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
def up(folder: Path, ports: str, *, verbose: bool, as_json: bool) -> None:
    """Start the whole mesh on this machine.

    Core, issuer, gatekeeper and sidecar run as processes of their own, with real mTLS and real
    tokens, until Ctrl-C. Their certificates, configurations and data are in the state folder.
    """
    console = Console(as_json=as_json, verbose=verbose)
    state = State(folder)
    running = Running(state.run)
    try:
        with writing(folder):
            state.make_folders()
            state.try_writing()
        with running.held() as lock:
            where = _addresses(state, free=ports == "free")
            with writing(folder), running.changing():
                _prepare(state, where, console)
            check_disk(state.config("core"), os.environ)
            mesh = Mesh(state, where, console, running, lock)
            text = welcome(mesh.url, mesh.tcp, folder)
            facts = {"url": mesh.url, "tcp": mesh.tcp}
            hold_signals()
            code = asyncio.run(mesh.run(lambda: console.show(Event("ready", text, facts=facts))))
            console.show(Event("stopped", f"Stopped. The data stays in {state.data}."))
    except AlreadyUpError:
        record = running.record() or {}
        raise click.ClickException(
            f"Sidegate is already up in {folder} (pid {record.get('pid', 'unknown')}, "
            f"{record.get('url', 'still starting')}). `make status` shows it, `make down` stops it."
        ) from None
    except NoRoom as error:
        raise CouldNotRun(str(error)) from error
    except BusyError:
        raise CouldNotRun(
            f"another command has been changing {folder} for a while; end it and try again"
        ) from None
    except LeftoversError:
        raise CouldNotRun(
            f"services of an earlier `sidegate up` still use {folder}; `make down` waits for them"
        ) from None
    sys.exit(code)


def _addresses(state: State, *, free: bool) -> addresses.Addresses:
    try:
        where = (
            addresses.free_addresses()
            if free
            else addresses.chosen(os.environ, state.own_addresses())
        )
    except (addresses.AddressError, StateError) as error:
        raise CouldNotRun(str(error)) from error
    problems = list(addresses.obstacles(where))
    if problems:
        raise CouldNotRun("\n".join(problems))
    return where


def _prepare(state: State, where: addresses.Addresses, console: Console) -> None:
    try:
        state.make_keys()
        state.make_certificates(ca.utc_now())
        state.make_documents(where)
        for sentence in state.stale_files(where):
            console.show(Event("stale", sentence, level="warning"))
    except StateError as error:
        raise CouldNotRun(str(error)) from error


def welcome(url: str, tcp: str | None, folder: Path) -> str:
    """What can be done now, in lines that can be pasted into another terminal."""
    place = url.removeprefix("http://").replace("127.0.0.1", "localhost")
    broker = "" if tcp is None else f"\n  # without HTTP\n  {netcat(tcp)}\n"
    return f"""
Sidegate is up: a message goes all the way through. In another terminal:

  # receive
  curl -N '{place}/subscribe/orders?from=earliest'

  # publish
  curl -s {place}/publish -d '{{"topic":"orders","message":{{"order_id":101}}}}'

  # be denied
  curl -s {place}/publish -d '{{"topic":"forbidden.orders","message":1}}'
{broker}
  # read on
  {url.replace("127.0.0.1", "localhost")}/docs

`make status` shows what goes on, the logs are in {folder / "run"}, Ctrl-C stops everything.
"""


def netcat(tcp: str) -> str:
    """A message published and fetched over TCP, by whichever netcat there is.

    Some end with their input and lose the answer, some never end: `-w` is the one option that
    makes all of them wait a second for what comes and go. Not every one of them tries the second
    address of a name, so the host is a number.
    """
    host, _, port = tcp.rpartition(":")
    return (
        "printf 'PUB orders 16\\r\\n{\"order_id\":101}FETCH orders 0\\r\\n' | "
        f"nc -w 1 {host.strip('[]')} {port}"
    )
