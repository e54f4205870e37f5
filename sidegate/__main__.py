"""The `sidegate` command: the table of its commands, and nothing that is slow to import.

A command is listed here once it works. Exit codes are the same for all of them: 0 it did what was
asked, 1 it was refused or failed, 2 it could not run (wrong usage, wrong configuration, nothing to
talk to).
"""

import os
import sys

import click

from sidegate.lazy import Entry, LazyGroup

COMMANDS = {
    "up": Entry("sidegate.commands.up:up", "Start the whole mesh on this machine."),
    "down": Entry("sidegate.commands.down:down", "Stop the mesh that `sidegate up` started."),
    "status": Entry(
        "sidegate.commands.status:status", "Show what runs, is connected, spooled and denied."
    ),
    "publish": Entry("sidegate.commands.publish:publish", "Publish messages to a topic."),
    "subscribe": Entry("sidegate.commands.subscribe:subscribe", "Print a topic's messages."),
    "tail": Entry("sidegate.commands.tail:tail", "Follow a topic live, with a filter if you like."),
    "subscriptions": Entry(
        "sidegate.commands.subscriptions:subscriptions",
        "List, create, move, pause, redrive and delete subscriptions.",
    ),
    "lag": Entry("sidegate.commands.lag:lag", "Show how far behind subscriptions are, and why."),
    "replay": Entry(
        "sidegate.commands.replay:replay", "Deliver a range again to one push subscription."
    ),
    "channels": Entry(
        "sidegate.commands.channels:channels",
        "List, show, set and delete named destinations of pushes.",
    ),
    "log": Entry("sidegate.commands.log:log", "Read and check the log's files, offline."),
    "witness": Entry(
        "sidegate.commands.witness:witness",
        "Show what a gatekeeper remembers of the log; decide after an alarm.",
    ),
    "public-key": Entry(
        "sidegate.commands.public_key:public_key",
        "Print the public key of a core or gatekeeper, as one line.",
    ),
    "audit": Entry(
        "sidegate.commands.audit:audit", "Audit the log with Spark, and write a report."
    ),
    "topics": Entry(
        "sidegate.commands.topics:topics", "List, create, describe, alter and delete topics."
    ),
    "rejects": Entry(
        "sidegate.commands.rejects:rejects",
        "List, retry and drop messages that were refused after a 202.",
    ),
    "policy": Entry(
        "sidegate.commands.policy:policy", "Check a policy file, run its tests, explain a decision."
    ),
    "whoami": Entry(
        "sidegate.commands.whoami:whoami",
        "Show who a sidecar is to the gatekeeper, and what it may do.",
    ),
    "decisions": Entry(
        "sidegate.commands.decisions:decisions",
        "Show what a gatekeeper decided lately, newest first.",
    ),
    "revoke": Entry(
        "sidegate.commands.revoke:revoke",
        "Take back a token, a client or a certificate on every gatekeeper.",
    ),
    "service": Entry(
        "sidegate.commands.service:service", "Add services to the development mesh, and list them."
    ),
    "drain": Entry("sidegate.commands.drain:drain", "Wait until a sidecar has sent all it has."),
    "health": Entry("sidegate.commands.health:health", "Ask one service whether it is ready."),
    "core": Entry("sidegate.commands.serve:core", "Run the central log."),
    "signer": Entry(
        "sidegate.commands.serve:signer", "Run the process that signs the core's checkpoints."
    ),
    "gatekeeper": Entry("sidegate.commands.serve:gatekeeper", "Run a gatekeeper."),
    "sidecar": Entry("sidegate.commands.serve:sidecar", "Run a sidecar."),
    "issuer": Entry("sidegate.commands.serve:issuer", "Run the development token issuer."),
    "completion": Entry(
        "sidegate.commands.completion:completion", "Print a shell's completion script."
    ),
}


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="sidegate", message="sidegate %(version)s")
def cli() -> None:
    """A pub/sub mesh: sidecars, a gatekeeper that proves who is calling, one append-only log."""


def main() -> None:
    """The console script's entry point."""
    # https://no-color.org: set and not empty means no colours, on a terminal too. None leaves it to
    # click, which sends none where nobody can see them.
    try:
        cli(prog_name="sidegate", color=False if os.environ.get("NO_COLOR") else None)
    except OSError as error:
        # A file that can't be read or written is its user's to mend; anything else is ours.
        if error.filename is None:
            raise
        click.echo(f"Error: {error.filename}: {error.strerror}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
