"""Reads a pipeline file: its format, and the error messages for anything else.

Names of sources and steps are names of views in SQL. A step can use all sources, and all steps above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from headrace.spark.option_values import read_bytes, read_count
from headrace.spark.pipeline.document import Node, load
from headrace.spark.pipeline.server import read_server, resolve_path
from headrace.spark.pipeline.specification import (
    MODES,
    ONCE,
    Pipeline,
    SinkSpec,
    SourceSpec,
    StepSpec,
    StreamSpec,
    Watermark,
)
from headrace.spark.pipeline.table_fields import (
    TABLE_FIELDS,
    read_compact_after,
    read_decoding,
    read_on_bad_row,
    read_settings,
)

_NAME = re.compile(r"[A-Za-z_]\w*")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?)?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

FIELDS = ("name", "server", "streams", "spark", "checkpoint", "trigger", "sources", "steps", "sinks")


def read_pipeline(path: str | Path) -> Pipeline:
    """The pipeline of a file. Raises UsageError and ConfigError."""
    root = load(path)
    directory = Path(path).resolve().parent
    fields = root.fields("a pipeline", FIELDS)
    for name in "sources", "sinks", "checkpoint":
        if name not in fields:
            root.fail(f"a pipeline needs `{name}`", HINTS[name])
    sources = tuple(_source(name, node) for name, node in _named(fields["sources"], "sources"))
    steps = tuple(_step(name, node) for name, node in _named(fields.get("steps"), "steps"))
    trigger = _trigger(fields.get("trigger"), "")
    sinks = tuple(_sink(name, node, directory, trigger) for name, node in _named(fields["sinks"], "sinks"))
    _check_names(sources, steps, sinks)
    spark = fields["spark"].fields("spark", ("master", "conf")) if "spark" in fields else {}
    return Pipeline(
        name=fields["name"].text("name") if "name" in fields else Path(path).stem,
        directory=directory,
        server=read_server(fields.get("server"), directory),
        streams=tuple(_stream(name, node) for name, node in _named(fields.get("streams"), "streams")),
        master=spark["master"].text("master") if "master" in spark else "",
        conf=_conf(spark.get("conf")),
        checkpoint=resolve_path(fields["checkpoint"].text("checkpoint"), directory),
        sources=sources,
        steps=steps,
        sinks=sinks,
    )


HINTS = {
    "sources": "sources: {orders: {stream: ORDERS}} reads the stream ORDERS as `orders`",
    "sinks": "sinks: {raw: {from: orders, table: tables/orders}} writes it to a table",
    "checkpoint": "a directory that remembers the position of the pipeline: checkpoint: state",
}


def _named(section: Node | None, what: str) -> Iterable[tuple[str, Node]]:
    if section is None:
        return []
    entries = section.mapping(what)
    if not entries:
        section.fail(f"`{what}` is empty")
    return entries.items()


def _stream(name: str, node: Node) -> StreamSpec:
    fields = node.fields(f"the stream {name}", ("subjects", "duplicate_window"))
    if "subjects" not in fields:
        node.fail(f"the stream {name} needs `subjects`", "subjects: [orders.>]")
    window = fields.get("duplicate_window")
    return StreamSpec(
        name=name,
        subjects=tuple(fields["subjects"].texts("subjects")),
        duplicate_window=window.read("duplicate_window", seconds_of) if window else 600.0,
        node=node,
    )


def _conf(node: Node | None) -> dict[str, str]:
    if node is None:
        return {}
    conf = {}
    for name, value in node.mapping("conf").items():
        conf[name] = str(value.value).lower() if isinstance(value.value, bool) else value.text(name)
    return conf


SOURCE_OPTIONS = {
    "stream": "stream",
    "subject": "subject",
    "start": "startingOffsets",
    "start_time": "startingTimestamp",
    "max_rows": "maxOffsetsPerTrigger",
    "max_bytes": "maxBytesPerTrigger",
    "partitions": "minPartitions",
    "fail_on_data_loss": "failOnDataLoss",
}


def _source(name: str, node: Node) -> SourceSpec:
    fields = node.fields(f"the source {name}", (*SOURCE_OPTIONS, "watermark"))
    if "stream" not in fields:
        node.fail(f"the source {name} needs `stream`", f"{name}: {{stream: ORDERS}}")
    options = {"startingOffsets": "earliest"}
    for key, option in SOURCE_OPTIONS.items():
        if key in fields:
            options[option] = _source_option(key, fields[key])
    if "startingTimestamp" in options and "start" not in fields:
        del options["startingOffsets"]
    return SourceSpec(name, options, _watermark(fields.get("watermark")), node)


def _source_option(key: str, node: Node) -> str:
    if key in ("max_rows", "partitions"):
        return str(node.read(key, read_count))
    if key == "max_bytes":
        return str(node.read(key, read_bytes))
    if key == "fail_on_data_loss":
        return str(node.switch(key)).lower()
    if key == "start_time" and hasattr(node.value, "isoformat"):
        return str(node.value.isoformat())  # YAML reads times by itself
    return ",".join(node.texts(key))


def _step(name: str, node: Node) -> StepSpec:
    fields = node.fields(f"the step {name}", ("sql", "python", "from", "watermark"))
    if ("sql" in fields) == ("python" in fields):
        node.fail(f"the step {name} needs either `sql` or `python`")
    if "sql" in fields and "from" in fields:
        fields["from"].fail("`from` belongs to `python`; SQL names its views itself")
    if "python" in fields and "from" not in fields:
        node.fail(f"the step {name} needs `from`: the views that the function gets")
    python = fields["python"].text("python") if "python" in fields else ""
    if python and not re.fullmatch(r"[\w.]+:\w+", python):
        fields["python"].fail(f"`python` must be module:function, not {python!r}")
    return StepSpec(
        name=name,
        sql=fields["sql"].text("sql") if "sql" in fields else "",
        python=python,
        inputs=tuple(fields["from"].texts("from")) if "from" in fields else (),
        watermark=_watermark(fields.get("watermark")),
        node=fields.get("sql") or fields["python"],
    )


def _watermark(node: Node | None) -> Watermark | None:
    if node is None:
        return None
    fields = node.fields("watermark", ("column", "delay"))
    for name in "column", "delay":
        if name not in fields:
            node.fail(f"a watermark needs `{name}`", "watermark: {column: timestamp, delay: 10 seconds}")
    seconds = fields["delay"].read("delay", seconds_of)
    return Watermark(fields["column"].text("column"), f"{seconds:g} seconds")


SINK_FIELDS = ("from", "table", *TABLE_FIELDS, "stream", "subject", "console", "mode", "trigger")


def _sink(name: str, node: Node, directory: Path, trigger: str) -> SinkSpec:
    fields = node.fields(f"the sink {name}", SINK_FIELDS)
    if "from" not in fields:
        node.fail(f"the sink {name} needs `from`: the view that it writes")
    kinds: list[str] = [kind for kind in ("table", "console") if kind in fields]
    if "stream" in fields or ("subject" in fields and "table" not in fields):
        kinds.append("subject")
    if len(kinds) != 1:
        node.fail(f"the sink {name} needs one of `table`, `subject` (with or without `stream`) or `console`")
    for option in TABLE_FIELDS:
        if option in fields and "table" not in fields:
            fields[option].fail(f"`{option}` belongs to a `table`")
    mode = fields["mode"].text("mode") if "mode" in fields else "append"
    if mode not in MODES:
        fields["mode"].fail(f"`mode` must be {', '.join(MODES[:-1])} or {MODES[-1]}, not {mode}")
    if "table" in fields and mode != "append":
        fields["mode"].fail("a table can only be appended to", "use a watermark, and leave `mode` out")
    if "console" in fields:
        fields["console"].switch("console")
    return SinkSpec(
        name=name,
        view=fields["from"].text("from"),
        table=resolve_path(fields["table"].text("table"), directory) if "table" in fields else "",
        settings=read_settings(fields),
        decoding=read_decoding(node, fields, directory) if "table" in fields else None,
        on_bad_row=read_on_bad_row(fields.get("on_bad_row")),
        key=tuple(fields["key"].texts("key")) if "key" in fields else (),
        partition_by=tuple(fields["partition_by"].texts("partition_by")) if "partition_by" in fields else (),
        compact_after=read_compact_after(fields.get("compact_after")),
        publish=kinds == ["subject"],
        subject=fields["subject"].text("subject") if kinds == ["subject"] and "subject" in fields else "",
        stream=fields["stream"].text("stream") if "stream" in fields else "",
        console=kinds == ["console"],
        mode=mode,
        trigger=_trigger(fields.get("trigger"), trigger),
        node=node,
    )


def _trigger(node: Node | None, default: str) -> str:
    if node is None:
        return default
    text = node.text("trigger")
    return ONCE if text == ONCE else f"{node.read('trigger', seconds_of):g}"


def seconds_of(text: str) -> float:
    """`10 seconds`, `500 ms`, `2m`; a plain number is seconds. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError("must be a time such as 10 seconds, 500 ms or 2 minutes")
    unit = match[2] or "s"
    factor = 0.001 if unit.startswith(("ms", "mil")) else _SECONDS[unit[0]]
    return float(match[1]) * factor


def _check_names(
    sources: tuple[SourceSpec, ...], steps: tuple[StepSpec, ...], sinks: tuple[SinkSpec, ...]
) -> None:
    """Names are those of views and unique; a reference points to something above."""
    seen: set[str] = set()
    views: tuple[SourceSpec | StepSpec, ...] = (*sources, *steps)
    for spec in views:
        if not _NAME.fullmatch(spec.name):
            spec.node.fail(f"`{spec.name}` cannot be the name of a view", "use letters, digits and _")
        if spec.name in seen:
            spec.node.fail(f"`{spec.name}` is the name of a source or step above")
        if isinstance(spec, StepSpec):
            for view in spec.inputs:
                _check_view(view, seen, spec.node)
        seen.add(spec.name)
    streams = {source.name: source.options["stream"] for source in sources}
    for sink in sinks:
        _check_view(sink.view, seen, sink.node)
        if sink.key and "," in streams.get(sink.view, ""):
            message = f"a table with a key needs one stream, but {sink.view} reads {streams[sink.view]}"
            sink.node.fail(message, "`seq` says which row is the latest, and each stream counts for itself")


def _check_view(view: str, seen: set[str], node: Node) -> None:
    if view not in seen:
        node.fail(f"no source or step `{view}` is defined above", f"there are {', '.join(sorted(seen))}")
