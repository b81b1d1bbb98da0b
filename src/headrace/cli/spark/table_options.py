"""The options of tables: what is inside the messages, which format, and where it is kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.errors import UsageError
from headrace.spark.payload.wanted import Payload

if TYPE_CHECKING:
    from headrace.spark.table.interface import Settings

FORMATS = ("delta", "iceberg", "parquet")
PAYLOADS = ("json", "avro", "protobuf", "csv", "text", "raw")

Command = TypeVar("Command", bound=Callable[..., Any])


def payload_options(command: Command) -> Command:
    """Adds the options; passes them on as `payload: Payload`."""

    @wraps(command)
    def with_payload(
        *arguments: Any,
        schema: str | None,
        payload_format: str | None,
        message: str | None,
        subject: str | None,
        columns: str | None,
        key: str | None,
        **others: Any,
    ) -> Any:
        if schema is not None and not schema.strip():
            raise click.UsageError("--schema is empty: give it columns or a file, or leave it out")
        given = Payload(
            schema or "", payload_format or "", message or "", subject or "", _names(columns), _names(key)
        )
        return command(*arguments, payload=given, **others)

    options = (
        click.option(
            "--schema",
            metavar="DDL|FILE",
            help="Columns of the payload: 'id BIGINT, amount DOUBLE', or a file with a JSON Schema, an Avro "
            "schema or a Protobuf descriptor set.",
        ),
        click.option(
            "--payload",
            "payload_format",
            type=click.Choice(PAYLOADS),
            help="Format of payloads. [default: what the schema is for, or json]",
        ),
        click.option("--message", metavar="NAME", help="Name of the Protobuf message."),
        click.option(
            "--subject",
            metavar="PATTERN",
            help="Tokens of the subject as columns: 'orders.{country}.{kind}'.",
        ),
        click.option(
            "--columns",
            metavar="NAMES",
            help="Columns of the message to keep, of stream,seq,subject,timestamp,headers; or none. "
            "[default: stream,seq,subject,timestamp]",
        ),
        click.option(
            "--key",
            metavar="FIELD",
            help="Keep only the latest row of each key: one column, or a comma-separated list.",
        ),
    )
    decorated: Any = with_payload
    for option in reversed(options):
        decorated = option(decorated)
    result: Command = decorated
    return result


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def storage_option(command: Command) -> Command:
    """Adds --storage-option; passes it on as `storage: dict[str, str]`."""
    option = click.option(
        "--storage-option",
        "storage",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_pairs,
        help="Setting of the object store, for the library that commits; repeatable.",
    )
    return option(command)


def table_settings(command: Command) -> Command:
    """Adds --format, --catalog, --table and --storage-option; passes them on as `settings: Settings`."""

    @wraps(command)
    def with_settings(
        *arguments: Any,
        table_format: str | None,
        catalog: str | None,
        table: str | None,
        storage: dict[str, str],
        **others: Any,
    ) -> Any:
        from headrace.spark.table.interface import Settings

        settings = Settings(table_format or "", storage, catalog or "", table or "")
        return command(*arguments, settings=settings, **others)

    options = (
        click.option(
            "--format",
            "table_format",
            type=click.Choice(FORMATS),
            help="Format of the table. [default: what it is; delta for a new one]",
        ),
        click.option(
            "--catalog", metavar="NAME", help="Iceberg catalog. [default: SQLite next to the table]"
        ),
        click.option("--table", metavar="NAME", help="Name of the table in the Iceberg catalog."),
        storage_option,
    )
    decorated: Any = with_settings
    for option in reversed(options):
        decorated = option(decorated)
    result: Command = decorated
    return result


def check_is_table(directory: str) -> None:
    """Without Spark it is known at once whether a directory of this machine holds a table."""
    if ":" not in directory and not Path(directory, "_headrace", "table.json").exists():
        below = sorted(str(path.parents[1]) for path in Path(directory).glob("*/_headrace/table.json"))
        hint = f"there are some below it: {', '.join(below)}" if below else "`headrace land` makes one"
        raise UsageError(f"there is no table in {directory}", hint=hint)


def settings_with(storage: dict[str, str]) -> Settings:
    from headrace.spark.table.interface import Settings

    return Settings(storage_options=storage)


def _pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in value:
        name, equals, setting = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--storage-option {name!r} has no value: write it as NAME=VALUE")
        found[name] = setting
    return found
