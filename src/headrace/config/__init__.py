"""Every option once: defaults, flags, the nats-server configuration file format, reload.

    command = parse_command_line(sys.argv[1:])      flags.py
    loaded = load_options(command)                  load.py: defaults, then the file, then the flags
    check_options(loaded.options)                   options.py: contradictions
    plan = plan_reload(running, loaded.options)     reload.py: after a SIGHUP

From simple to hard: options.py, flags.py, directives.py, file_format.py, scanner.py.
"""

from headrace.config.flags import (
    FLAG_ERROR_EXIT_CODE,
    PROGRAM,
    CommandLine,
    FlagError,
    parse_command_line,
    usage,
    version_line,
)
from headrace.config.identity import User
from headrace.config.load import Loaded, check_configuration, load_file, load_options
from headrace.config.options import (
    ANY_FREE_PORT,
    DEFAULT_OPTIONS,
    NATS_VERSION,
    Options,
    check_options,
    is_bcrypt,
)
from headrace.config.problems import ConfigFileError
from headrace.config.reload import ReloadPlan, plan_reload
from headrace.config.signals import send_signal

__all__ = [
    "ANY_FREE_PORT",
    "DEFAULT_OPTIONS",
    "FLAG_ERROR_EXIT_CODE",
    "NATS_VERSION",
    "PROGRAM",
    "CommandLine",
    "ConfigFileError",
    "FlagError",
    "Loaded",
    "Options",
    "ReloadPlan",
    "User",
    "check_configuration",
    "check_options",
    "is_bcrypt",
    "load_file",
    "load_options",
    "parse_command_line",
    "plan_reload",
    "send_signal",
    "usage",
    "version_line",
]
