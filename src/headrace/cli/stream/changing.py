"""`headrace stream add`, `edit`: a configuration from options and a file, sent to the server.

Nothing is ever asked that an option could have said: what is not given has the default of the nats tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from headrace.cli.arguments import name_of_stream
from headrace.cli.human import duration
from headrace.cli.output import confirm, say
from headrace.cli.stream.settings import (
    DEFAULTS,
    STREAM_SETTINGS,
    apply_settings,
    read_config,
    setting_options,
    without_reserved_metadata,
    write_config,
)
from headrace.cli.stream.showing import show_stream
from headrace.cli.tables import json_option, print_json, print_lines
from headrace.cli.target import Target, connection_options
from headrace.errors import UsageError

DIFFERENT = 1
DURATIONS = {
    *("max_age", "duplicate_window", "subject_delete_marker_ttl"),
    *("ack_wait", "idle_heartbeat", "inactive_threshold", "max_expires", "priority_timeout"),
}

Document = dict[str, Any]

config_option = click.option(
    "--config", metavar="FILE", help="Start from this JSON file; options override it."
)
force_option = click.option("--force", "-f", is_flag=True, help="Do not ask.")


def creation_options(command: Callable[..., None]) -> Callable[..., None]:
    """Of a command that creates a stream or a consumer: where its configuration comes from, or goes to."""
    options = (
        config_option,
        click.option(
            "--output", metavar="FILE", help="Write the configuration to this file, and create nothing."
        ),
        click.option("--validate", is_flag=True, help="Check the configuration, and create nothing."),
        click.option(
            "--defaults", is_flag=True, help="For scripts made for the nats tool: nothing is asked anyway."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(
    epilog="""\b
Examples:
  headrace stream add ORDERS --subjects 'orders.>' --max-age 7d --max-bytes 10GB
  headrace stream add JOBS --subjects jobs --retention work --discard new --max-msgs 10000
  headrace stream add COPY --mirror ORDERS
  headrace stream add ORDERS --config orders.json
"""
)
@click.argument("stream", required=False, callback=name_of_stream)
@connection_options
@creation_options
@setting_options(STREAM_SETTINGS, edit=False)
@json_option
def add(
    target: Target,
    stream: str | None,
    config: str | None,
    output: str | None,
    validate: bool,
    defaults: bool,
    settings: Document,
    as_json: bool,
) -> None:
    """Create STREAM."""
    wanted = new_config(stream, config, settings)
    if output:
        return write_config(output, wanted)
    if validate:
        return validate_config(wanted, "StreamConfig")
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        created = api.create_stream(wanted)
    if as_json:
        print_json(created)
    else:
        say(f"created the stream {wanted['name']}")
        show_stream(created)
    return None


def new_config(stream: str | None, config: str | None, settings: Document) -> Document:
    """Raises UsageError for what the server would not understand, or would fill in surprisingly."""
    base = read_config(config) if config else DEFAULTS
    wanted = apply_settings(base, settings)
    name = stream or wanted.get("name")
    if not name:
        raise click.UsageError("the stream needs a name")
    if not config and not (wanted.get("subjects") or wanted.get("mirror") or wanted.get("sources")):
        raise click.UsageError("a stream needs something to store: --subjects, --mirror or --source")
    if wanted.get("mirror") and wanted.get("subjects"):
        raise click.UsageError("a mirror has no subjects: leave out --subjects, or use --source")
    return {**wanted, "name": name}


def validate_config(config: Document, kind: str) -> None:
    """Fields and types as this version knows them. Raises UsageError."""
    import msgspec

    from headrace.streams import config as known

    struct = getattr(known, kind)
    unknown = sorted(set(config) - {field.encode_name for field in msgspec.structs.fields(struct)})
    if unknown:
        raise UsageError(f"the configuration has an unknown field: {', '.join(unknown)}")
    try:
        msgspec.convert(config, struct)
    except msgspec.ValidationError as error:
        raise UsageError(f"the configuration is not valid: {error}") from None
    say("the configuration is valid")


@click.command(
    short_help="Change the configuration of a stream.",
    epilog="""\b
Examples:
  headrace stream edit ORDERS --max-age 30d
  headrace stream edit ORDERS --config orders.json --dry-run
""",
)
@click.argument("stream", callback=name_of_stream)
@connection_options
@config_option
@force_option
@click.option("--dry-run", is_flag=True, help="Only show the differences; exit code 1 if there are any.")
@click.option("--no-mirror", is_flag=True, help="Make a mirror a stream of its own.")
@click.option("--no-transform", is_flag=True, help="Remove the subject transform.")
@click.option("--no-republish", is_flag=True, help="Stop republishing.")
@setting_options(STREAM_SETTINGS, edit=True)
@json_option
def edit(
    target: Target,
    stream: str,
    config: str | None,
    force: bool,
    dry_run: bool,
    no_mirror: bool,
    no_transform: bool,
    no_republish: bool,
    settings: Document,
    as_json: bool,
) -> int:
    """Change the configuration of STREAM, after showing the differences."""
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        present = without_reserved_metadata(api.stream_info(stream)["config"])
        base = {**read_config(config), "name": stream} if config else present
        wanted = apply_settings(base, settings)
        for field, gone in (
            ("mirror", no_mirror),
            ("subject_transform", no_transform),
            ("republish", no_republish),
        ):
            if gone:
                wanted.pop(field, None)
        code = show_differences(present, wanted, dry_run=dry_run)
        if code is not None:
            return code
        confirm(f"Really edit the stream {stream}?", force=force)
        changed = api.update_stream(wanted)
    if as_json:
        print_json(changed)
    else:
        say(f"changed the stream {stream}")
    return 0


def show_differences(present: Document, wanted: Document, *, dry_run: bool) -> int | None:
    """Print them to stderr; the exit code if that is all there is to do."""
    lines = list(differences(present, wanted))
    if not lines:
        say("no differences: nothing to change")
        return 0
    if dry_run:
        print_lines(lines)
        return DIFFERENT
    for line in lines:
        say(line)
    return None


def differences(present: Document, wanted: Document) -> list[str]:
    """`- field: old` and `+ field: new`, by field; lists that differ in their order alone are equal."""
    lines = []
    for field in sorted(present.keys() | wanted.keys()):
        old, new = present.get(field), wanted.get(field)
        if _comparable(old) == _comparable(new):
            continue
        if old not in (None, "", [], {}):
            lines.append(f"- {field}: {_shown(field, old)}")
        if new not in (None, "", [], {}):
            lines.append(f"+ {field}: {_shown(field, new)}")
    return lines


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(json.dumps(item, sort_keys=True) for item in value)
    return value or None


def _shown(field: str, value: Any) -> str:
    if field in DURATIONS and isinstance(value, int):
        return duration(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
