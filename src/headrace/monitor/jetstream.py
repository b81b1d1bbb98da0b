"""What /varz and /jsz report about JetStream: its settings, its limits and how much it stores."""

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
    """`options` are those that JetStream runs with, in which all limits are known."""
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
    """The sums over all accounts."""
    accounts = jetstream.accounts.values()
    return {
        "memory": sum(account.resources.used("memory") for account in accounts),
        "storage": sum(account.resources.used("file") for account in accounts),
        "reserved_memory": jetstream.resources.reserved("memory"),
        "reserved_storage": jetstream.resources.reserved("file"),
        "accounts": sum(account.is_enabled for account in accounts),
        "ha_assets": 0,
        "api": {
            "level": API_LEVEL,
            "total": sum(account.api_total for account in accounts),
            "errors": sum(account.api_errors for account in accounts),
        },
    }
