"""The configuration of a stream as options: one table, from which `add`, `edit` and `copy` get their flags.

Names, values and defaults are those of the nats tool. An option that is not given leaves its field alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from headrace.cli.arguments import check_subject
from headrace.cli.human import Duration, Size
from headrace.errors import UsageError
from headrace.subjects.grammar import is_valid_subject

Command = TypeVar("Command", bound=Callable[..., Any])
Config = dict[str, Any]

RESERVED_METADATA = "_nats."  # what the server adds to a configuration
LARGEST_MESSAGE = (1 << 31) - 1


@dataclass(frozen=True)
class Setting:
    """An option and the field that it sets. `read` turns what click parsed into the field's value."""

    flags: str
    field: str
    help: str
    kind: Any = str
    metavar: str | None = None
    multiple: bool = False
    read: Callable[[Any], Any] | None = None
    create_only: bool = False

    @property
    def parameter(self) -> str:
        return f"set_{self.field.replace('.', '_')}"

    def option(self) -> Callable[[Command], Command]:
        more: dict[str, Any] = {"multiple": True} if self.multiple else {"default": None}
        return click.option(
            self.flags, self.parameter, type=self.kind, metavar=self.metavar, help=self.help, **more
        )

    def value(self, given: Any) -> Any:
        return self.read(given) if self.read else given


def setting_options(settings: Iterable[Setting], *, edit: bool) -> Callable[[Command], Command]:
    """Adds the options of a table; the command gets the fields that were given, as `settings: dict`."""
    wanted = [setting for setting in settings if not (edit and setting.create_only)]

    def decorate(command: Command) -> Command:
        from functools import wraps

        @wraps(command)
        def with_settings(*arguments: Any, **others: Any) -> Any:
            given = {setting: others.pop(setting.parameter) for setting in wanted}
            fields = {
                setting.field: setting.value(value)
                for setting, value in given.items()
                if value is not None and value != ()
            }
            return command(*arguments, settings=fields, **others)

        result: Any = with_settings
        for setting in reversed(wanted):
            result = setting.option()(result)
        decorated: Command = result
        return decorated

    return decorate


def split_list(values: tuple[str, ...]) -> list[str]:
    """Repeated options, each a comma-separated list."""
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def subject_list(values: tuple[str, ...]) -> list[str]:
    """The same for subjects. What no server accepts is refused here, with the subject and what is wrong."""
    subjects = split_list(values)
    for subject in subjects:
        if not is_valid_subject(subject):
            try:
                check_subject(subject, wildcards=True)
            except UsageError as error:
                raise click.UsageError(str(error)) from None
    return subjects


def key_values(values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for value, (key, separator, _) in zip(values, pairs, strict=True):
        if not (key and separator):
            raise click.UsageError(f"--metadata {value!r} has no key: write it as KEY=VALUE")
    return {key: text for key, _, text in pairs}


def source(value: str) -> Config:
    """A stream's name, or a JSON object as in the API, for filters, starts and other accounts."""
    if not value.lstrip().startswith("{"):
        return {"name": value}
    try:
        document = json.loads(value)
    except ValueError as error:
        raise click.UsageError(f"{value!r} is not JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise click.UsageError(f'{value!r} names no stream: it needs a "name"')
    return document


def without_reserved_metadata(config: Config) -> Config:
    """A copy without what the server itself writes into the metadata."""
    pairs = (config.get("metadata") or {}).items()
    metadata = {key: value for key, value in pairs if not key.startswith(RESERVED_METADATA)}
    copy = {field: value for field, value in config.items() if field != "metadata"}
    return copy | ({"metadata": metadata} if metadata else {})


def read_config(path: str) -> Config:
    """A configuration in a JSON file, as `--output` and `info --json` write it. Raises UsageError."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    if isinstance(document, dict) and isinstance(document.get("config"), dict):
        document = document["config"]
    if not isinstance(document, dict):
        raise UsageError(f"{path} has no configuration: it must be a JSON object")
    if not isinstance(document.get("metadata") or {}, dict):
        raise UsageError(f"{path}: its metadata must be a JSON object")
    return without_reserved_metadata(document)


def write_config(path: str, config: Config) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2)
            file.write("\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


_CHOICES = {
    "storage": {"file": "file", "f": "file", "memory": "memory", "m": "memory"},
    "retention": {"limits": "limits", "interest": "interest", "work": "workqueue", "workq": "workqueue"},
}


def _choice(field: str) -> dict[str, Any]:
    values = _CHOICES[field]
    return {"kind": click.Choice(list(values)), "read": values.__getitem__}


def _switch(flag: str, field: str, text: str) -> Setting:
    """`--flag/--no-flag`; without either the field stays as it is."""
    name = flag.removeprefix("--")
    return Setting(f"{flag}/--no-{name}", field, text, kind=bool)


def _message_size(size: int) -> int:
    if size > LARGEST_MESSAGE:
        raise click.UsageError(f"--max-msg-size: at most {LARGEST_MESSAGE:,} bytes")
    return size


STREAM_SETTINGS = [
    Setting("--subjects", "subjects", "Subjects to store; repeatable, or comma-separated.",
            metavar="SUBJECT", multiple=True, read=subject_list),
    Setting("--description", "description", "What the stream is for.", metavar="TEXT"),
    Setting("--storage", "storage", "Where messages are kept. [default: file]", create_only=True,
            **_choice("storage")),
    Setting("--compression", "compression", "Compress files. [default: none]",
            kind=click.Choice(["none", "s2"])),
    Setting("--replicas", "num_replicas", "Copies in a cluster. [default: 1]",
            kind=click.IntRange(min=1), metavar="N"),
    Setting("--tag", "placement.tags", "Place it on servers with this tag; repeatable.", metavar="TAG",
            multiple=True, read=split_list),
    Setting("--cluster", "placement.cluster", "Place it in this cluster.", metavar="NAME"),
    Setting("--ack/--no-ack", "no_ack", "Acknowledge publishes. [default: yes]", kind=bool,
            read=lambda acknowledges: not acknowledges),
    Setting("--retention", "retention", "When messages may go. [default: limits]", **_choice("retention")),
    Setting("--discard", "discard", "At a limit: drop old messages, or refuse new ones. [default: old]",
            kind=click.Choice(["new", "old"])),
    _switch("--discard-per-subject", "discard_new_per_subject", "Refuse new messages per subject."),
    Setting("--first-sequence", "first_seq", "Sequence of the first message.", kind=click.IntRange(min=1),
            metavar="SEQ", create_only=True),
    Setting("--max-age", "max_age", "How long messages are kept; 0 is unlimited.", kind=Duration,
            metavar="DURATION"),
    Setting("--max-bytes", "max_bytes", "How many bytes are kept; -1 is unlimited.", kind=Size,
            metavar="SIZE"),
    Setting("--max-consumers", "max_consumers", "How many consumers it may have; -1 is unlimited.",
            kind=click.IntRange(min=-1), metavar="N"),
    Setting("--max-msg-size", "max_msg_size", "Largest message; -1 is unlimited.", kind=Size, metavar="SIZE",
            read=_message_size),
    Setting("--max-msgs", "max_msgs", "How many messages are kept; -1 is unlimited.",
            kind=click.IntRange(min=-1), metavar="N"),
    Setting("--max-msgs-per-subject", "max_msgs_per_subject", "The same for each subject.",
            kind=click.IntRange(min=-1), metavar="N"),
    Setting("--dupe-window", "duplicate_window",
            "How long a Nats-Msg-Id is remembered. [default: 2m, or max-age if shorter]", kind=Duration,
            metavar="DURATION"),
    Setting("--mirror", "mirror", "Mirror a stream: its name, or JSON as in the API.",
            metavar="STREAM", read=source),
    Setting("--source", "sources", "Collect messages of another stream; name or JSON; repeatable.",
            metavar="STREAM", multiple=True, read=lambda values: list(map(source, values))),
    _switch("--allow-batch", "allow_atomic", "Allow atomic batches."),
    _switch("--allow-fast", "allow_batched", "Allow fast batches."),
    _switch("--allow-counter", "allow_msg_counter", "Make every subject a counter."),
    _switch("--allow-rollup", "allow_rollup_hdrs", "Allow messages that replace those before them."),
    _switch("--deny-delete", "deny_delete", "Refuse to delete single messages."),
    _switch("--deny-purge", "deny_purge", "Refuse to purge."),
    _switch("--allow-direct", "allow_direct", "Allow direct gets. [default: yes]"),
    _switch("--allow-mirror-direct", "mirror_direct", "Answer direct gets of the mirrored stream, too."),
    _switch("--allow-msg-ttl", "allow_msg_ttl", "Allow a time to live per message."),
    _switch("--allow-schedules", "allow_msg_schedules", "Allow messages that are published later."),
    Setting("--subject-del-markers-ttl", "subject_delete_marker_ttl",
            "How long a mark stays for a subject whose last message expired.", kind=Duration,
            metavar="DURATION"),
    Setting("--transform-source", "subject_transform.src", "Subjects to rename as they are stored.",
            metavar="SUBJECT"),
    Setting("--transform-destination", "subject_transform.dest", "Their new names.", metavar="SUBJECT"),
    Setting("--metadata", "metadata", "Metadata; repeatable.", metavar="KEY=VALUE", multiple=True,
            read=key_values),
    Setting("--republish-source", "republish.src", "Subjects to publish again once they are stored.",
            metavar="SUBJECT"),
    Setting("--republish-destination", "republish.dest", "Where to.", metavar="SUBJECT"),
    Setting("--republish-headers/--republish-all", "republish.headers_only",
            "Publish again without payloads.", kind=bool),
    Setting("--limit-consumer-inactive", "consumer_limits.inactive_threshold",
            "Longest time that a consumer may be idle.", kind=Duration, metavar="DURATION", create_only=True),
    Setting("--limit-consumer-max-pending", "consumer_limits.max_ack_pending",
            "Most acknowledgements that a consumer may wait for.", kind=click.IntRange(min=0), metavar="N",
            create_only=True),
    Setting("--persist-mode", "persist_mode", "When an acknowledgement is sent. [default: default]",
            kind=click.Choice(["default", "async"]), create_only=True),
]  # fmt: skip

DEFAULTS: Config = {
    "retention": "limits",
    "storage": "file",
    "discard": "old",
    "compression": "none",
    "num_replicas": 1,
    "max_msgs": -1,
    "max_msgs_per_subject": -1,
    "max_bytes": -1,
    "max_msg_size": -1,
    "max_consumers": -1,
    "max_age": 0,
    "allow_direct": True,
}

TWINS = {
    "subject_transform": ("--transform-source", "src", "--transform-destination", "dest"),
    "republish": ("--republish-source", "src", "--republish-destination", "dest"),
}


def apply_settings(config: Config, settings: Config) -> Config:
    """A new configuration; a field such as `placement.tags` is in an object of its own."""
    result = dict(config)
    for field, value in settings.items():
        outer, _, inner = field.partition(".")
        if inner:
            result[outer] = {**(result.get(outer) or {}), inner: value}
        else:
            result[field] = value
    for field, (one, first, other, second) in TWINS.items():
        given = result.get(field)
        if given and not (given.get(first) and given.get(second)):
            raise click.UsageError(f"{one} and {other} belong together")
    return result
