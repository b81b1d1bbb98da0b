"""`headrace-server`: a drop-in for `nats-server`, with its flags, files, log lines, exit codes, signals."""

from __future__ import annotations

import sys

from headrace.cli.standard_streams import open_standard_streams
from headrace.config.flags import PROGRAM, CommandLine, FlagError, parse_command_line, usage, version_line
from headrace.config.load import check_configuration, load_options
from headrace.config.options import Options, check_options
from headrace.config.signals import send_signal
from headrace.errors import HeadraceError
from headrace.logs import Logger
from headrace.runner import run_server
from headrace.server import log_settings


def main() -> None:
    open_standard_streams()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the server and return the exit code that nats-server would."""
    try:
        command = parse_command_line(arguments)
        if command.action == "version":
            print(version_line())
        elif command.action == "help":
            print(usage())
        elif command.action == "signal":
            send_signal(command.signal)
        elif command.action == "check":
            print(check_configuration(command), file=sys.stderr)
        else:
            return serve(command)
    except FlagError as error:
        print(error, file=sys.stderr)
        print(usage())
        return 0  # as nats-server does
    except HeadraceError as error:
        print(f"{PROGRAM}: {error.explained}", file=sys.stderr)
        return 1
    return 0


def serve(command: CommandLine) -> int:
    """Run a server until it is stopped."""

    def read_options() -> Options:
        options = load_options(command).options
        check_options(options)
        return options

    loaded = load_options(command)
    for warning in loaded.warnings:
        print(f"{PROGRAM}: {warning}", file=sys.stderr)
    check_options(loaded.options)
    logger = Logger(log_settings(loaded.options))
    try:
        return run_server(loaded.options, logger, reread=read_options)
    finally:
        logger.close()


if __name__ == "__main__":
    main()
