"""`sidegate completion`: prints the script that makes a shell complete sidegate's commands."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion script.

    \b
    bash   eval "$(sidegate completion bash)"    in ~/.bashrc
    zsh    eval "$(sidegate completion zsh)"     in ~/.zshrc
    fish   sidegate completion fish > ~/.config/fish/completions/sidegate.fish
    """
    complete = get_completion_class(shell)
    if complete is None:
        raise click.UsageError(f"this click knows no completion for {shell}")
    click.echo(complete(ctx.find_root().command, {}, "sidegate", "_SIDEGATE_COMPLETE").source())
