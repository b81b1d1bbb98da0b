"""Everything that the report computes, as Spark queries. Each function turns data frames into a data frame.

A *case* is what can be compared: same machine, workload, preset, variant, clients, sizes and wanted rate.
Within a case, runs of several servers are compared, and runs of one server are ordered by time.

Every run has one headline *value*, so that medians, spread and change mean the same for all workloads:

    request        round trips per second            higher is better
    latency        the 99th percentile               lower is better
    connections    memory per idle connection        lower is better
    all others     messages per second, published and delivered, the total that nats-bench prints
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (the name that everyone who knows Spark expects)

PERCENTILES = {"p50": 5000, "p90": 9000, "p99": 9900, "p99_9": 9990, "p99_99": 9999}
"""In ten-thousandths, so that a rank is integer arithmetic: 0.9 * n may be off by rounding."""
LATENCIES = [*PERCENTILES, "max_us"]
STRETCHES_MAX = 60
"""The most points of a line over time."""

CASE = [
    "machine",
    "workload",
    "preset",
    "variant",
    "num_pubs",
    "num_subs",
    "num_msgs",
    "msg_size",
    "connections",
    "rate_wanted",
]
SERVER_CASE = [*CASE, "server_name"]

RUN_CONSTANTS = [
    *(
        "started",
        "workload",
        "variant",
        "preset",
        "server_name",
        "server_version",
        "num_pubs",
        "num_subs",
        "num_msgs",
    ),
    *("msg_size", "total_msgs_per_sec", "server_cpu_seconds", "server_peak_rss_bytes", "generator_cpu_share"),
    *("connections", "rss_per_connection", "machine"),
]


def machines(clients: DataFrame) -> DataFrame:
    """A row per machine, the most recent one first."""
    return (
        clients.groupBy("machine")
        .agg(
            F.count_distinct("run_id").alias("runs"),
            F.max("started").alias("last"),
            *(F.max_by(name, "started").alias(name) for name in ("cpu", "cores", "memory_bytes", "kernel")),
        )
        .orderBy(F.desc("last"), "machine")
        .withColumn("last", _minute("last"))
    )


def percentiles(slices: DataFrame) -> DataFrame:
    """A row per run: all its slices as one histogram, and the value at each rank."""
    return _percentiles_by(slices, ["run_id"])


def over_time(slices: DataFrame, all_runs: DataFrame) -> DataFrame:
    """A row per interval of the newest run of each case and server, if it has more than one.

    An interval is a slice, or several of a long run, so that a chart does not have too many points.
    """
    newest_first = Window.partitionBy(*SERVER_CASE).orderBy(F.desc("started"), F.desc("run_id"))
    newest = (
        all_runs.where(F.col("samples") > 0)
        .withColumn("age", F.row_number().over(newest_first))
        .where(F.col("age") == 1)
        .select(*SERVER_CASE, "run_id")
    )
    run = Window.partitionBy("run_id")
    width = F.ceil((F.max("slice").over(run) + 1) / F.lit(STRETCHES_MAX))
    stretched = slices.where(F.col("count") > 0).withColumn(
        "stretch", F.floor(F.col("slice") / width).cast("int")
    )
    measured = _percentiles_by(stretched, ["run_id", "stretch"])
    begin = stretched.groupBy("run_id", "stretch").agg(F.min("slice_start_seconds").alias("second"))
    return (
        newest.join(measured.drop("rate_wanted"), "run_id")
        .join(begin, ["run_id", "stretch"])
        .withColumn("stretches", F.count("*").over(run))
        .where(F.col("stretches") > 1)
        .orderBy(*SERVER_CASE, "second")
    )


def _percentiles_by(slices: DataFrame, keys: list[str]) -> DataFrame:
    """A row per key: its slices as one histogram, and the value at each rank.

    The value is the upper bound of the bucket with that rank, but never more than the highest value, which is
    known exactly.
    """
    buckets = (
        slices.select(*keys, F.explode(F.arrays_zip("bucket_us", "bucket_count")).alias("bucket"))
        .groupBy(*keys, F.col("bucket.bucket_us").alias("bound"))
        .agg(F.sum("bucket.bucket_count").alias("count"))
    )
    run = Window.partitionBy(*keys)
    up_to_here = run.orderBy("bound").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = buckets.select(
        *keys,
        "bound",
        F.sum("count").over(up_to_here).alias("reached"),
        F.sum("count").over(run).alias("samples"),
    )
    bounds = ranked.groupBy(*keys).agg(
        F.max("samples").alias("samples"),
        *(
            F.min(F.when(F.col("reached") * 10_000 >= F.col("samples") * rank, F.col("bound"))).alias(name)
            for name, rank in PERCENTILES.items()
        ),
    )
    highest = slices.groupBy(*keys).agg(
        F.max("max_us").alias("max_us"), F.max("rate_wanted").alias("rate_wanted")
    )
    return highest.join(bounds, keys, "left").select(
        *keys,
        "rate_wanted",
        "samples",
        *(F.least(name, "max_us").alias(name) for name in PERCENTILES),
        "max_us",
    )


def runs(clients: DataFrame, slices: DataFrame) -> DataFrame:
    """A row per run: what was run, its rates, its percentiles, its headline value, and how that changed."""
    per_run = clients.groupBy("run_id").agg(
        *(F.first(name).alias(name) for name in RUN_CONSTANTS),
        _rate_of("pub").alias("pub_rate"),
        _rate_of("sub").alias("sub_rate"),
        _rate_of("requester").alias("request_rate"),
        *_client_spread("sub"),
    )
    valued = per_run.join(percentiles(slices), "run_id", "left").withColumn("value", _headline())
    in_time = Window.partitionBy(*SERVER_CASE).orderBy("started", "run_id")
    before = F.lag("value").over(in_time)
    return (
        valued.withColumn("number", F.row_number().over(in_time))
        .withColumn("change", F.when(before > 0, F.col("value") / before - 1))
        .withColumn("moment", _minute("started"))
    )


def summaries(all_runs: DataFrame) -> DataFrame:
    """A row per case and server: median, lowest, highest and standard deviation over its runs."""
    middles = [*LATENCIES, "pub_rate", "sub_rate", "server_peak_rss_bytes", "generator_cpu_share"]
    return (
        all_runs.where(F.col("value").isNotNull())
        .groupBy(*SERVER_CASE)
        .agg(
            F.count("*").alias("runs"),
            F.median("value").alias("median"),
            F.min("value").alias("lowest"),
            F.max("value").alias("highest"),
            F.stddev_samp("value").alias("deviation"),
            F.max_by("value", "started").alias("newest"),
            F.max_by("change", "started").alias("change"),
            F.array_join(F.array_sort(F.collect_set("server_version")), ", ").alias("versions"),
            *(F.median(name).alias(name) for name in middles),
            *(F.min(name).alias(f"{name}_lowest") for name in LATENCIES),
            *(F.max(name).alias(f"{name}_highest") for name in LATENCIES),
        )
        .withColumn(
            "spread", F.when(F.col("median") > 0, (F.col("highest") - F.col("lowest")) / F.col("median"))
        )
        .orderBy(*SERVER_CASE)
    )


def fan_out(all_runs: DataFrame) -> DataFrame:
    """Throughput by number of subscribers: like `summaries`, but of any preset and number of messages."""
    return (
        all_runs.where((F.col("workload") == "pubsub") & (F.col("value") > 0))
        .groupBy("machine", "server_name", "num_pubs", "msg_size", "num_subs")
        .agg(*_spread("value"))
        .orderBy("num_pubs", "msg_size", "machine", "server_name", "num_subs")
    )


def memory(all_runs: DataFrame) -> DataFrame:
    """The server's peak memory by number of connections: idle ones (`msg_size` 0), and those of `pubsub`."""
    idle = F.col("workload") == "connections"
    clients = F.when(idle, F.col("connections")).otherwise(F.col("num_pubs") + F.col("num_subs"))
    return (
        all_runs.where(F.col("workload").isin("connections", "pubsub") & (F.col("server_peak_rss_bytes") > 0))
        .withColumn("idle", idle)
        .withColumn("clients", clients)
        .withColumn("msg_size", F.when(idle, F.lit(0)).otherwise(F.col("msg_size")))
        .where(F.col("clients") > 0)
        .groupBy("machine", "server_name", "idle", "msg_size", "clients")
        .agg(*_spread("server_peak_rss_bytes"), F.median("rss_per_connection").alias("per_connection"))
        .orderBy(F.desc("idle"), "msg_size", "machine", "server_name", "clients")
    )


def best_seeds(seeds: DataFrame) -> DataFrame:
    """The best published figure of rnats and of beaver for each number of clients and size."""
    best = ("rate", "step", "rss_bytes", "machine")
    return (
        seeds.groupBy("system", "pubs", "subs", "msg_bytes")
        .agg(*(F.max_by(name, "rate").alias(name) for name in best))
        .orderBy("system", "msg_bytes", "subs", "pubs")
    )


def compared_with_seeds(all_summaries: DataFrame, seeds: DataFrame) -> DataFrame:
    """A row per seed's figure and summary of the same clients and size, with the ratio of ours to theirs."""
    same = [
        F.col("seed.pubs") == F.col("ours.num_pubs"),
        F.col("seed.subs") == F.col("ours.num_subs"),
        F.col("seed.msg_bytes") == F.col("ours.msg_size"),
        F.col("ours.workload") == "pubsub",
    ]
    return (
        best_seeds(seeds)
        .alias("seed")
        .join(all_summaries.alias("ours"), reduce(Column.__and__, same))
        .select(
            *(f"seed.{name}" for name in ("system", "pubs", "subs", "msg_bytes", "rate")),
            F.col("seed.machine").alias("seed_machine"),
            *(f"ours.{name}" for name in ("server_name", "machine", "num_msgs", "runs", "median")),
            (F.col("ours.median") / F.col("seed.rate")).alias("ratio"),
        )
        .orderBy("system", "msg_bytes", "subs", "pubs", "num_msgs", "server_name", "machine")
    )


def _rate_of(role: str) -> Column:
    """Messages per second of all clients with a role, from their common start to when the last was done."""
    mine = F.col("role") == role
    seconds = F.max(F.when(mine, F.col("duration_seconds")))
    return F.when(seconds > 0, F.sum(F.when(mine, F.col("msg_count"))) / seconds)


def _client_spread(role: str) -> list[Column]:
    """How evenly clients with a role were served: min, avg, max and stddev, as nats-bench prints them."""
    rate = F.when(F.col("role") == role, F.col("msgs_per_sec"))
    measures = {"min": F.min, "avg": F.avg, "max": F.max, "stddev": F.stddev_pop}
    return [measure(rate).alias(f"{role}_{name}") for name, measure in measures.items()]


def _spread(name: str) -> list[Column]:
    measures = {"median": F.median, "lowest": F.min, "highest": F.max}
    return [F.count("*").alias("runs"), *(measure(name).alias(key) for key, measure in measures.items())]


def _headline() -> Column:
    workload = F.col("workload")
    return (
        F.when(workload == "request", F.coalesce("request_rate", "total_msgs_per_sec"))
        .when(workload == "latency", F.col("p99"))
        .when(workload == "connections", F.col("rss_per_connection"))
        .otherwise(F.col("total_msgs_per_sec"))
    )


def _minute(name: str) -> Column:
    """As text, because PySpark converts timestamps to the local time zone."""
    return F.date_format(name, "yyyy-MM-dd HH:mm")
