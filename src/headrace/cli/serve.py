"""`headrace serve`: a server on loopback that needs no configuration and prints how to try it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.output import plural, say
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.config.options import Options
    from headrace.config.tls.settings import TlsSettings
    from headrace.logs import LogSettings
    from headrace.server import Server

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 4222
DEFAULT_MONITOR_PORT = 8222
ANY_FREE_PORT = -1
HIGHEST_PORT = 65535
PORT = click.IntRange(ANY_FREE_PORT, HIGHEST_PORT)
DEFAULT_STORE = "headrace-data"


@click.command(
    epilog="""\b
Examples:
  headrace serve                             on 127.0.0.1:4222
  headrace serve -p -1 -m -1                 on any free ports
  headrace serve --store /var/lib/headrace   with streams in this directory
  HEADRACE_TOKEN=secret headrace serve --host 0.0.0.0
"""
)
@click.option("--host", metavar="HOST", help="Address to listen on; 0.0.0.0 for all. [default: 127.0.0.1]")
@click.option(
    "--port", "-p", type=PORT, metavar="PORT", help="Port for clients; -1: any free port. [default: 4222]"
)
@click.option(
    "--monitor-port",
    "-m",
    type=PORT,
    metavar="PORT",
    help="Port for monitoring and the console over HTTP; -1: any free port, 0: none. "
    "[default: 8222, for this machine only]",
)
@click.option(
    "--http-in", type=PORT, metavar="PORT", help="Port that takes messages over HTTP; -1: any free port."
)
@click.option(
    "--config", "-c", metavar="FILE", help="Configuration file, as for nats-server; options override it."
)
@click.option(
    "--user",
    envvar="HEADRACE_USER",
    metavar="NAME",
    help="User that clients must log in as. [env HEADRACE_USER]",
)
@click.option(
    "--password",
    envvar="HEADRACE_PASSWORD",
    metavar="SECRET",
    help="Password of that user; visible in the process list, so prefer [env HEADRACE_PASSWORD]",
)
@click.option(
    "--token",
    envvar="HEADRACE_TOKEN",
    metavar="SECRET",
    help="Token that clients must present; visible in the process list, so prefer [env HEADRACE_TOKEN]",
)
@click.option(
    "--store",
    envvar="HEADRACE_STORE",
    metavar="DIR",
    help=f"Directory for streams. [default: {DEFAULT_STORE}; env HEADRACE_STORE]",
)
@click.option("--no-console", is_flag=True, help="Run without the web console.")
@click.option("--no-streams", is_flag=True, help="Run without streams (JetStream), and write no files.")
@click.option(
    "--tls-self-signed",
    metavar="DIR",
    help="TLS with a self-signed certificate, created in this directory unless it exists; for trying it out.",
)
@click.option("--log-file", metavar="FILE", help="Write the log to this file.")
@click.option("--verbose", "-v", is_flag=True, help="Log everything that happens, for debugging.")
@click.option("--trace", is_flag=True, help="Also log the protocol: every message with its content.")
def serve(
    host: str | None,
    port: int | None,
    monitor_port: int | None,
    http_in: int | None,
    config: str | None,
    user: str | None,
    password: str | None,
    token: str | None,
    store: str | None,
    no_console: bool,
    no_streams: bool,
    tls_self_signed: str | None,
    log_file: str | None,
    verbose: bool,
    trace: bool,
) -> int:
    """Run a server until Ctrl-C.

    Only this machine can connect to it, unless you choose another --host. Streams are stored in a directory,
    and an acknowledged message is on disk.
    """
    if (user is None) != (password is None):
        raise click.UsageError("--user and --password must be used together")
    if user is not None and token is not None:
        raise click.UsageError("use either --user with --password, or --token, not both")
    given = {
        "host": host,
        "port": ANY_FREE_PORT if port == 0 else port,
        "http_port": monitor_port,
        "username": user,
        "password": password,
        "token": token,
        "store_dir": store,
        "jetstream": False if no_streams else None,
        "log_file": log_file,
        "debug": verbose or None,
        "trace": trace or None,
    }
    from headrace.config.console import ConsoleOptions

    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    authority = ""
    if no_console:
        changes["console"] = ConsoleOptions(enabled=False)
    if tls_self_signed is not None:
        changes["tls"], authority = self_signed(tls_self_signed, host)
    return run(changes, config or "", authority, http_in)


def self_signed(directory: str, host: str | None) -> tuple[TlsSettings, str]:
    """New or existing certificates, and the file that clients need. Raises UsageError."""
    from headrace.broker.listener import WILDCARD_HOSTS
    from headrace.config.tls.context import with_files
    from headrace.config.tls.settings import CertificateFiles, TlsSettings
    from headrace.keys.self_signed import own_hosts, prepare_self_signed

    hosts = own_hosts() if host is None or host in WILDCARD_HOSTS else (*own_hosts(), host)
    files = prepare_self_signed(directory, hosts)
    if files.made:
        say(f"made {' and '.join(files.made)} in {directory}")
    settings = TlsSettings(certificates=(CertificateFiles(files.certificate, files.key),))
    return with_files(settings), files.ca


def run(
    changes: dict[str, Any], config_path: str, authority: str = "", http_in_port: int | None = None
) -> int:
    """Serve until stopped; print which CA clients need. Raises HeadraceError if options are wrong."""
    import msgspec

    from headrace.config.flags import CommandLine
    from headrace.config.load import Loaded, load_options
    from headrace.config.options import Options, check_options
    from headrace.runner import run_server
    from headrace.server import log_settings

    command = CommandLine("serve", config_path, changes=changes)
    base = Options(host=LOOPBACK, jetstream=True, store_dir=DEFAULT_STORE)

    def load() -> Loaded:
        loaded = load_options(command, base)
        options = loaded.options if "http_port" in changes else with_monitor(loaded.options)
        if http_in_port is not None:  # the rest of the block stays
            http_in = msgspec.structs.replace(options.http_in, port=http_in_port)
            options = msgspec.structs.replace(options, http_in=http_in)
        check_options(options)
        return msgspec.structs.replace(loaded, options=options)

    loaded = load()
    options = loaded.options
    check_ports(options)
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    logger = make_friendly_logger(log_settings(options), has_file=bool(config_path))
    front = Front(authority)
    try:
        code = run_server(
            options, logger, reread=(lambda: load().options) if config_path else None, on_ready=front.open
        )
    finally:
        logger.close()
    front.close()
    return code


def with_monitor(options: Options) -> Options:
    """Monitoring and the console are on by default, for this machine only."""
    import msgspec

    if options.monitor_port:
        return options
    return msgspec.structs.replace(
        options, http_host=LOOPBACK, http_port=DEFAULT_MONITOR_PORT, http_port_is_optional=True
    )


def check_ports(options: Options) -> None:
    """A configuration file may hold any number. Raises UsageError."""
    ports = ("port", options.port), ("http_port", options.http_port), ("http_in port", options.http_in.port)
    for name, port in ports:
        if not ANY_FREE_PORT <= port <= HIGHEST_PORT:
            raise UsageError(
                f"{name} {port} is not a valid port", hint=f"use 1 to {HIGHEST_PORT}, or -1 for any free port"
            )


def warn_if_open(options: Options) -> None:
    if not options.auth_required and not is_loopback(options.host):
        say(
            f"warning: other machines may reach {options.host}, and no credentials are required; "
            "use --user and --password, or --token, or omit --host"
        )


def is_loopback(host: str) -> bool:
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# Log lines that repeat what is on the screen. All others are shown.
KNOWN_LINES = (
    "Starting nats-server",
    "  Version:",
    "  Name:",
    "  ID:",
    "Using configuration file",
    "Trusted Operators",
    "  System  :",
    "  Operator:",
    "Managing all jwt",
    "Starting JetStream",
    "----",
    "  Strict:",
    "  Max Memory:",
    "  Max Storage:",
    "  Store Directory:",
    "  Domain:",
    "  API Level:",
    "  Restored ",
    "Took ",
    "Initiating JetStream Shutdown",
    "JetStream Shutdown",
    "Listening for client connections",
    "TLS required for client connections",
    "TLS available for client connections",
    "Starting http monitor",
    "Starting https monitor",
    "Listening for messages over HTTP",
    "Server is ready",
    'Trapped "interrupt" signal',
    'Trapped "terminated" signal',
    "Initiating Shutdown",
    "Server Exiting",
)


def make_friendly_logger(settings: LogSettings, *, has_file: bool) -> Any:
    from headrace.logs import Logger

    class FriendlyLogger(Logger):
        """On the screen, leaves out what is there already; prints why the server cannot start."""

        def info(self, text: str) -> None:
            if self.path or self.debug_enabled or not text.startswith(KNOWN_LINES):
                super().info(text)

        def warn(self, text: str) -> None:
            # Without a file, a password came from an option or the environment: there is nothing to hash.
            if has_file or not text.startswith("Plaintext passwords"):
                super().warn(text)

        def fatal(self, text: str) -> None:
            if self.path:
                super().fatal(text)
            self.flush()
            say(f"the server cannot start: {text}")

    return FriendlyLogger(settings)


@dataclass
class Front:
    """Messages to the user on stdout: the address at the start, the counts at the end."""

    authority: str = ""
    server: Server | None = None

    def open(self, server: Server) -> None:
        self.server = server
        warn_if_open(server.options)
        self._print(greeting(server, self.authority))

    def close(self) -> None:
        if self.server is None:
            return
        broker = self.server.broker
        self._print(
            f"Stopped: {plural(broker.total_connections, 'connection')} served, "
            f"{plural(broker.hub.in_msgs, 'message')} in, {broker.hub.out_msgs:,} out."
        )

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a server does not stop because nobody reads its greeting
            click.echo(text)


def greeting(server: Server, authority: str = "") -> str:
    from headrace import __version__

    options = server.options
    scheme = "tls" if options.tls_required else "nats"
    lines = [f"Headrace {__version__} is listening on {scheme}://{server.address}"]
    if options.jetstream:
        lines.append(f"Streams are stored in {options.store_dir}")
    if server.monitor:
        base = f"{server.monitor.scheme}://{server.monitor.address}{options.http_base_path.rstrip('/')}"
        if not server.monitor.console.why_off:
            lines.append(f"Console: {base}/console")
        lines.append(f"Monitoring: {base}/varz")
    if server.http_in:
        lines.append(f"Messages over HTTP: POST {server.http_in.url}SUBJECT")
    is_default = reachable(server) == f"{LOOPBACK}:{DEFAULT_PORT}" and scheme == "nats"
    where = "" if is_default else f" -s {scheme}://{reachable(server)}"
    if authority:
        where += f" --tls-ca {authority}"
    lines += [
        "",
        "Try it in two other terminals:",
        f"  headrace sub{where} 'greet.*'",
        f"  headrace pub{where} greet.anna 'Hello, Anna'",
    ]
    if authority:
        lines += [
            "In Python, with nats-py:",
            f'  tls = ssl.create_default_context(cafile="{authority}")',
            f'  await nats.connect("tls://{reachable(server)}", tls=tls)',
        ]
    elif options.tls_required:
        lines.append("They need the CA of the certificate, unless this machine trusts it: set NATS_CA there.")
    if options.token:
        lines.append("They need the token: set NATS_TOKEN there.")
    elif options.trust.is_operator_mode:
        lines.append("They need credentials: set NATS_CREDS to the .creds file of a user there.")
    elif options.auth_required:
        lines.append("They need to log in: set NATS_USER and NATS_PASSWORD there.")
    return "\n".join([*lines, "", "Ctrl-C stops the server."])


def reachable(server: Server) -> str:
    """The address, or one that clients can use if the server listens on all."""
    host, _, port = server.address.rpartition(":")
    return f"{LOOPBACK if host in ('0.0.0.0', '[::]', '') else host}:{port}"
