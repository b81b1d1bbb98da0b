"""The table of dead letters next to a table, in the same format; and what `--on-bad-row` means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import UsageError
from headrace.spark.payload.decode import DEAD_LETTER_COLUMNS
from headrace.spark.table.bad_rows import DEAD_LETTER, FAIL, STREAM, BadRows, Fail, ToStream, ToTable
from headrace.spark.table.deletions import Deletions
from headrace.spark.table.description import Description
from headrace.spark.table.files import Files
from headrace.spark.table.interface import Settings, TableFormat
from headrace.spark.table.layout import DEAD_LETTERS, DESCRIPTION
from headrace.spark.table.preparing import prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_on_bad_row(text: str) -> str:
    """The text. Raises UsageError if it is not valid."""
    if text in (DEAD_LETTER, FAIL) or (text.startswith(STREAM) and text != STREAM):
        return text
    raise UsageError(
        f"a bad row cannot be handled by {text!r}", hint=f"use {DEAD_LETTER}, {FAIL} or {STREAM}NAME"
    )


def bad_rows(
    spark: SparkSession,
    what: str,
    files: Files,
    about: Description,
    settings: Settings,
    options: Mapping[str, str],
) -> BadRows:
    if check_on_bad_row(what) == FAIL:
        return Fail()
    if what.startswith(STREAM):
        return ToStream(what.removeprefix(STREAM), options)
    return ToTable(lambda: dead_letter_table(spark, files, about, settings))


def deletions_of(spark: SparkSession, files: Files, about: Description, settings: Settings) -> Deletions:
    """The table's deletions: kept as long as there are dead letters, even those of another run."""
    opened: list[TableFormat] = []

    def are_needed() -> bool:
        if not opened:
            if not files.exists(f"{DEAD_LETTERS}/{DESCRIPTION}"):
                return False
            opened.append(dead_letter_table(spark, files, about, settings))
        return bool(opened[0].files())

    return Deletions(spark, files, are_needed)


def dead_letter_table(
    spark: SparkSession, files: Files, about: Description, settings: Settings
) -> TableFormat:
    """The table, created if it does not exist."""
    name = f"{about.table}_dead_letters" if about.table else ""
    origin = f"messages of {about.origin} that do not fit"
    described = Description(format=about.format, origin=origin, catalog=about.catalog, table=name)
    settings = replace(settings, format="", table=name)
    return prepare(spark, files.at(DEAD_LETTERS), described, DEAD_LETTER_COLUMNS, settings)
