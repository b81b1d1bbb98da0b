"""The `headrace` command: its help, its subcommands, and the edge where every error becomes one line.

Start-up time matters on the command line, so only the module of the command in use is imported. It imports
only click at the top, and the rest (nats-py, the engine, uvloop) when it runs.

Exit codes: 0 done; 1 failed; 2 wrong command line; 130 interrupted before it was done.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

from headrace import __version__
from headrace.cli.completion import VARIABLE
from headrace.cli.lazy_group import LazyGroup
from headrace.cli.output import give_up_stdout, say
from headrace.cli.standard_streams import open_standard_streams
from headrace.errors import HeadraceError

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130

EPILOG = """\b
Examples:
  headrace serve                          a server on 127.0.0.1:4222
  headrace sub 'greet.*'                  print published messages
  headrace pub greet.anna 'Hello, Anna'   publish a message
  headrace request time.now               send a request, print the reply
  headrace stream ls                      the streams of a server
  headrace sql 'SELECT * FROM ORDERS'     query streams with Spark
  headrace bench --start headrace -ns 10  measure a server

The drop-in for nats-server, with its flags and configuration file, is headrace-server.
"""


PLACES = {
    "serve": "headrace.cli.serve:serve",
    "pub": "headrace.cli.pub:pub",
    "sub": "headrace.cli.sub:sub",
    "request": "headrace.cli.request:request",
    "stream": "headrace.cli.stream:stream",
    "consumer": "headrace.cli.consumer:consumer",
    "kv": "headrace.cli.kv:kv",
    "object": "headrace.cli.object:objects",
    "top": "headrace.cli.top:top",
    "events": "headrace.cli.events:events",
    "check": "headrace.cli.check:check",
    "sql": "headrace.cli.spark.sql:sql",
    "land": "headrace.cli.spark.land:land",
    "table": "headrace.cli.spark.table:table",
    "pipeline": "headrace.cli.spark.pipeline:pipeline",
    "auth": "headrace.cli.auth:auth",
    "bench": "headrace.cli.bench:bench",
    "completion": "headrace.cli.completion:completion",
}


@click.group(
    cls=LazyGroup,
    places=PLACES,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="headrace %(version)s")
def headrace() -> None:
    """A NATS server that you pip install, and commands for any NATS server."""


def run_and_exit() -> None:
    open_standard_streams()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code. Errors are printed, one line each."""
    if VARIABLE in os.environ:
        from headrace.cli.completion.names import propose_names

        propose_names(headrace)
    try:
        code = headrace.main(list(arguments), prog_name="headrace", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return WRONG_USAGE
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "headrace"
        say(f"{error.format_message().rstrip('.')} (see `{command} --help`)")
        return WRONG_USAGE
    except click.ClickException as error:
        say(error.format_message())
        return FAILED
    except HeadraceError as error:
        text = str(error) or type(error).__name__
        for line in (f"{text}; {error.hint}" if error.hint else text).splitlines():
            say(line)
        return FAILED
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        give_up_stdout()  # the reader of our output has exited, as in `headrace sub x | head -1`
        return 0
    except Exception as error:
        if os.environ.get("HEADRACE_TRACEBACK"):
            traceback.print_exc()
        say(f"this is a bug: {type(error).__name__}: {error}; HEADRACE_TRACEBACK=1 shows where it happened")
        return FAILED
