"""`sidegate core|signer|gatekeeper|sidecar|issuer`: run one service from its configuration.

Each service is named by two import paths and imported only when it runs: its configuration class,
which is light, and its `build(config)`, which is not.
"""

import os
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import click

SERVICES = {
    "core": ("core_log.config:CoreConfig", "core_log.service:make_service"),
    "signer": (
        "core_log.tree.signer_config:SignerConfig",
        "core_log.tree.signer_service:make_service",
    ),
    "gatekeeper": ("gatekeeper.config:GatekeeperConfig", "gatekeeper.service:build"),
    "sidecar": ("sidecar.config:SidecarConfig", "sidecar.service:build"),
    "issuer": (
        "sidegate.development.issuer_config:IssuerConfig",
        "sidegate.development.issuer_service:build",
    ),
}


def _command(service: str, text: str) -> click.Command:
    @click.command(service, help=text)
    @click.option(
        "--config",
        "path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The service's YAML file. SIDEGATE_… variables override its keys.",
    )
    @click.option(
        "--check-config",
        "check",
        is_flag=True,
        help="Report every problem of the configuration and exit: 0 if it has none, else 2.",
    )
    @click.option("--stop-with-stdin", is_flag=True, hidden=True)
    def command(path: Path | None, *, check: bool, stop_with_stdin: bool) -> None:
        if stop_with_stdin:
            _stop_with_stdin()
        sys.exit(_run(service, path, check=check))

    return command


core = _command("core", "Run the central log.")
signer = _command("signer", "Run the process that signs the core's checkpoints.")
gatekeeper = _command("gatekeeper", "Run a gatekeeper.")
sidecar = _command("sidecar", "Run a sidecar.")
issuer = _command("issuer", "Run the development token issuer.")


def _run(service: str, path: Path | None, *, check: bool) -> int:
    from hosting.config import ConfigError, check_config, load_config

    config_class, build = SERVICES[service]
    cls = _imported(config_class)
    if check:
        return check_config(cls, service=service, path=path, environ=os.environ, out=sys.stdout)
    try:
        config = load_config(cls, service=service, path=path, environ=os.environ)
    except ConfigError as error:
        click.echo(f"{service} can't run with this configuration:\n{error}", err=True)
        return 2
    from hosting.lifecycle import run_service
    from hosting.logs import configure_logging

    configure_logging(service, config.log_level)
    return run_service(lambda: _imported(build)(config))


def _imported(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def _stop_with_stdin() -> None:
    """Stop as if asked to when standard input ends, which it does with the process behind it."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="stop-with-stdin", daemon=True).start()
