"""`headrace stream copy`: a new stream with the configuration of another, and with its messages if wanted.

Messages are copied by the server: the copy begins as a mirror, which keeps sequences and times, and becomes
a stream of its own as soon as it has everything that was there at the start.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.arguments import name_of_stream
from headrace.cli.output import plural, say
from headrace.cli.stream.settings import (
    STREAM_SETTINGS,
    apply_settings,
    setting_options,
    without_reserved_metadata,
)
from headrace.cli.stream.showing import show_stream
from headrace.cli.tables import json_option, print_json
from headrace.cli.target import Target, connection_options
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.cli.stream.api import Api

Document = dict[str, Any]

POLL_SECONDS = 0.05
STALLED_SECONDS = 30.0
# What a mirror may not have, or what would remove messages while they arrive.
NOT_IN_A_MIRROR = ("subjects", "sources", "subject_transform", "republish", "first_seq", "duplicate_window")


@click.command(
    short_help="Create a stream with the configuration of another.",
    epilog="""\b
Examples:
  headrace stream copy ORDERS TEST --subjects 'test.orders.>'
  headrace stream copy ORDERS ORDERS_BEFORE_THE_MOVE --messages
""",
)
@click.argument("stream", callback=name_of_stream)
@click.argument("new", callback=name_of_stream)
@connection_options
@click.option("--messages", is_flag=True, help="Copy the messages, too, with their sequences and times.")
@setting_options(STREAM_SETTINGS, edit=False)
@json_option
def copy(target: Target, stream: str, new: str, messages: bool, settings: Document, as_json: bool) -> None:
    """Create the stream NEW with the configuration of STREAM; options override it.

    Two streams cannot store the same subject: give NEW its own with --subjects. With --messages and without
    --subjects, NEW stores the subject of its own name.
    """
    if stream == new:
        raise click.UsageError("the copy needs another name")
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        original = api.stream_info(stream)
        wanted = apply_settings(without_reserved_metadata(original["config"]), settings) | {"name": new}
        if messages:
            if "subjects" not in settings:
                wanted["subjects"] = [new]
            copied = _copy_messages(api, original, wanted)
        else:
            copied = api.create_stream(wanted)
    if as_json:
        print_json(copied)
    else:
        count = plural(copied["state"]["messages"], "message")
        say(f"created the stream {new} as a copy of {stream}{f' with {count}' if messages else ''}")
        show_stream(copied)


def _copy_messages(api: Api, original: Document, wanted: Document) -> Document:
    mirror = {name: value for name, value in wanted.items() if name not in NOT_IN_A_MIRROR}
    mirror |= {"mirror": {"name": original["config"]["name"]}, "retention": "limits"}
    api.create_stream(mirror)
    _wait_until_complete(api, wanted["name"], original)
    final = {name: value for name, value in wanted.items() if name not in ("mirror", "first_seq")}
    if final["retention"] != "limits":
        api.update_stream({**final, "retention": "limits"})
    return api.update_stream(final)


def _wait_until_complete(api: Api, copy: str, original: Document) -> None:
    """Raises HeadraceError if nothing arrives for a while; the mirror stays, so that it can be looked at."""
    from headrace.cli.stream.progress import Progress
    from headrace.cli.stream.stored import last_messages

    state = original["state"]
    moved_at, seen = time.monotonic(), 0
    final = last_messages(api, original["config"]["name"], state, 1)  # what comes after it was deleted
    with Progress("copying", state["messages"]) as progress:
        while final:
            info = api.stream_info(copy)
            last, count = info["state"]["last_seq"], info["state"]["messages"]
            if last >= final[0].seq:
                return
            if last > seen:
                moved_at, seen = time.monotonic(), last
                progress.advance(count - progress.done)
            elif time.monotonic() - moved_at > STALLED_SECONDS:
                error = ((info.get("mirror") or {}).get("error") or {}).get("description", "")
                raise HeadraceError(
                    f"the copy {copy} has stopped at sequence {seen}{f': {error}' if error else ''}",
                    hint=f"`headrace stream info {copy}` shows its state",
                )
            time.sleep(POLL_SECONDS)
