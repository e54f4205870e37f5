"""`sidegate down`: stop the mesh that runs in a state folder."""

from __future__ import annotations

from pathlib import Path

import click

from sidegate.commands.options import state_option
from sidegate.development.running import Running

# Stopping takes 5 s at most; services whose `sidegate up` was killed need as long.
STOP_S_MAX = 15.0


@click.command()
@state_option
def down(folder: Path) -> None:
    """Stop the mesh that `sidegate up` started."""
    running = Running(folder / "run")
    if not running.is_in_use():
        click.echo(f"Nothing runs in {folder}.")
        return
    record = running.record() or {}
    if not running.stop(STOP_S_MAX):
        services = record.get("services", {})
        pids = [str(service["pid"]) for service in services.values() if service.get("pid")]
        raise click.ClickException(
            f"it did not stop in {STOP_S_MAX:.0f} s; end these processes yourself: "
            f"{' '.join([str(record.get('pid', '')), *pids])}"
        )
    click.echo("Stopped.")
