"""`headrace consumer add` and `edit`: a configuration from options and a file, sent to the server."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.arguments import name_of_stream
from headrace.cli.consumer.arguments import consumer_arguments, name_of_consumer
from headrace.cli.consumer.settings import CONSUMER_SETTINGS, apply_consumer_settings
from headrace.cli.consumer.showing import show_consumer
from headrace.cli.output import confirm, say
from headrace.cli.stream.changing import (
    config_option,
    creation_options,
    force_option,
    show_differences,
    validate_config,
)
from headrace.cli.stream.settings import read_config, setting_options, without_reserved_metadata, write_config
from headrace.cli.tables import json_option, print_json
from headrace.cli.target import Target, connection_options
from headrace.errors import UsageError

Document = dict[str, Any]

DEFAULTS: Document = {"deliver_policy": "all", "replay_policy": "instant"}
FOR_PUSH = {
    "idle_heartbeat": "--heartbeat",
    "rate_limit_bps": "--bps",
    "flow_control": "--flow-control",
    "deliver_group": "--deliver-group",
}


@click.command(
    epilog="""\b
Examples:
  headrace consumer add ORDERS BILLING                     a pull consumer
  headrace consumer add ORDERS EU --filter 'orders.eu.>' --max-deliver 5 --backoff linear
  headrace consumer add ORDERS ALERTS --target alerts.orders --deliver new
  headrace consumer add ORDERS --ephemeral
"""
)
@click.argument("stream", callback=name_of_stream)
@click.argument("consumer", required=False, callback=name_of_consumer)
@connection_options
@creation_options
@click.option("--ephemeral", is_flag=True, help="One that goes when nobody uses it.")
@click.option("--pull", is_flag=True, help="A pull consumer, which it is without --target.")
@setting_options(CONSUMER_SETTINGS, edit=False)
@json_option
def add(
    target: Target,
    stream: str,
    consumer: str | None,
    config: str | None,
    output: str | None,
    validate: bool,
    defaults: bool,
    ephemeral: bool,
    pull: bool,
    settings: Document,
    as_json: bool,
) -> None:
    """Create a consumer of STREAM."""
    wanted = _new_config(consumer, config, settings, ephemeral=ephemeral)
    if pull and wanted.get("deliver_subject"):
        raise click.UsageError("a consumer either delivers to --target or is a --pull consumer")
    if output:
        return write_config(output, wanted)
    if validate:
        return validate_config(wanted, "ConsumerConfig")
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        created = send(api, stream, wanted, "create")
    if as_json:
        print_json(created)
    else:
        say(f"created the consumer {created['name']} of {stream}")
        show_consumer(created)
    return None


def _new_config(name: str | None, config: str | None, settings: Document, *, ephemeral: bool) -> Document:
    base = read_config(config) if config else DEFAULTS
    wanted = apply_consumer_settings(base, settings)
    if not config:
        wanted.setdefault("ack_policy", "none" if wanted.get("deliver_subject") else "explicit")
        wanted.setdefault("max_deliver", -1)
    if not wanted.get("deliver_subject"):
        for field, option in FOR_PUSH.items():
            if wanted.get(field):
                raise click.UsageError(f"{option} is for push consumers: give it a --target")
    filtered = wanted.get("filter_subject") or wanted.get("filter_subjects")
    if wanted.get("deliver_policy") == "last_per_subject" and not filtered:
        wanted["filter_subject"] = ">"  # the server wants one
    return _named(wanted, name, ephemeral=ephemeral)


def _named(wanted: Document, name: str | None, *, ephemeral: bool) -> Document:
    name = name or wanted.get("durable_name") or wanted.get("name")
    fields = {key: value for key, value in wanted.items() if key not in ("durable_name", "name")}
    if ephemeral:
        return fields | ({"name": name} if name else {})
    if not name:
        raise click.UsageError("the consumer needs a name, or --ephemeral")
    return {**fields, "durable_name": name, "name": name}


def send(api: Any, stream: str, config: Document, action: str) -> Document:
    name = config.get("name") or config.get("durable_name")
    operation = f"CONSUMER.CREATE.{stream}.{name}" if name else f"CONSUMER.CREATE.{stream}"
    body = {"stream_name": stream, "config": config} | ({"action": action} if name else {})
    created: Document = api.call(operation, body, what=f"stream {stream}: the consumer {name or ''}".rstrip())
    return created


@click.command(
    epilog="""\b
Examples:
  headrace consumer edit ORDERS BILLING --wait 1m --max-deliver 10
  headrace consumer edit ORDERS BILLING --filter 'orders.*.paid' --dry-run
"""
)
@consumer_arguments
@connection_options
@config_option
@force_option
@click.option("--dry-run", is_flag=True, help="Only show the differences; exit code 1 if there are any.")
@setting_options(CONSUMER_SETTINGS, edit=True)
@json_option
def edit(
    target: Target,
    stream: str,
    consumer: str,
    config: str | None,
    force: bool,
    dry_run: bool,
    settings: Document,
    as_json: bool,
) -> int:
    """Change the configuration of a consumer.

    It shows the differences and asks first.
    """
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        present = without_reserved_metadata(api.consumer_info(stream, consumer)["config"])
        if not present.get("durable_name"):
            raise UsageError(f"the consumer {consumer} is ephemeral: only durable ones can be changed")
        base = read_config(config) if config else present
        wanted = apply_consumer_settings(base, settings) | {"name": consumer, "durable_name": consumer}
        present.setdefault("name", consumer)
        code = show_differences(present, wanted, dry_run=dry_run)
        if code is not None:
            return code
        confirm(f"Really edit the consumer {consumer} of {stream}?", force=force)
        changed = send(api, stream, wanted, "update")
    if as_json:
        print_json(changed)
    else:
        say(f"changed the consumer {consumer} of {stream}")
    return 0
