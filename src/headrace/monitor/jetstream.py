"""What /varz, /jsz and /healthz tell about JetStream: its settings, its limits and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.config.options import API_LEVEL, DEFAULT_MAX_CONSUMERS, SYNC_ALWAYS, Options
from headrace.monitor.formats import to_nanoseconds

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream

# What nats-server shows for `always`, next to a flag that says so.
UNUSED_SYNC_INTERVAL_SECONDS = 120.0
NO_STATS: dict[str, Any] = {
    "memory": 0,
    "storage": 0,
    "reserved_memory": 0,
    "reserved_storage": 0,
    "accounts": 0,
    "ha_assets": 0,
    "api": {"level": 0, "total": 0, "errors": 0},
}
NO_CONFIG: dict[str, Any] = {"max_memory": 0, "max_storage": 0}


def describe_config(options: Options) -> dict[str, Any]:
    """`options` are those that JetStream runs with: their limits are numbers."""
    always = options.sync_interval == SYNC_ALWAYS
    described: dict[str, Any] = {
        "max_memory": options.jetstream_max_memory,
        "max_storage": options.jetstream_max_store,
        "store_dir": options.jetstream_directory,
        "sync_interval": to_nanoseconds(UNUSED_SYNC_INTERVAL_SECONDS if always else options.sync_interval),
    }
    if always:
        described["sync_always"] = True
    if options.jetstream_domain:
        described["domain"] = options.jetstream_domain
    if options.jetstream_unique_tag:
        described["unique_tag"] = options.jetstream_unique_tag
    if options.jetstream_strict:
        described["strict"] = True
    return described


def describe_limits(options: Options) -> dict[str, Any]:
    """Those that were set, and the one that nats-server always has."""
    limits = options.jetstream_limits
    described = {
        "max_request_batch": limits.max_request_batch,
        "max_ack_pending": limits.max_ack_pending,
        "max_ha_assets": limits.max_ha_assets,
        "max_duplicate_window": to_nanoseconds(limits.duplicate_window),
        "max_batch_inflight_per_stream": limits.max_batch_inflight_per_stream,
        "max_batch_inflight_total": limits.max_batch_inflight_total,
        "max_batch_size": limits.max_batch_size,
        "max_batch_timeout": to_nanoseconds(limits.max_batch_timeout),
        "default_max_consumers": limits.default_max_consumers or DEFAULT_MAX_CONSUMERS,
    }
    return {name: value for name, value in described.items() if value}


def describe_stats(jetstream: JetStream) -> dict[str, Any]:
    return {
        "memory": used_bytes(jetstream, "memory"),
        "storage": used_bytes(jetstream, "file"),
        "reserved_memory": reserved_bytes(jetstream, "memory"),
        "reserved_storage": reserved_bytes(jetstream, "file"),
        "accounts": int(jetstream.account.is_enabled),
        "ha_assets": 0,
        "api": {"level": API_LEVEL, "total": jetstream.api_total, "errors": jetstream.api_errors},
    }


def used_bytes(jetstream: JetStream, storage: str) -> int:
    return sum(one.log.byte_count for one in jetstream.streams.values() if one.config.storage == storage)


def reserved_bytes(jetstream: JetStream, storage: str) -> int:
    """What the limits of streams add up to; a stream without a limit reserves nothing."""
    return sum(
        max(one.config.max_bytes, 0) for one in jetstream.streams.values() if one.config.storage == storage
    )
