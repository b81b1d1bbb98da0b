"""`headrace completion`: the script that makes a shell complete commands, options and names."""

from __future__ import annotations

import click

VARIABLE = "_HEADRACE_COMPLETE"
"""Set by that script. click looks at it, and answers instead of running a command."""


@click.command(
    epilog="""\b
Examples:
  eval "$(headrace completion bash)"    this bash; in ~/.bashrc: always
  eval "$(headrace completion zsh)"     in ~/.zshrc, after compinit
  headrace completion fish > ~/.config/fish/completions/headrace.fish
"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete `headrace`.

    Names of streams, consumers, buckets, keys and objects come from the server that the command line, or
    NATS_URL, names. If it does not answer at once, there are none.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "headrace", VARIABLE).source())
