"""/varz: the server's identity, its settings and its statistics."""

from __future__ import annotations

import os
import platform
import time
from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.info import CLIENT_PROTOCOL, split_advertised
from headrace.config.options import NATS_VERSION
from headrace.config.tls.settings import TlsSettings
from headrace.go_formats import format_time
from headrace.http.message import Answer
from headrace.monitor.endpoint import Context, answer_document
from headrace.monitor.formats import format_uptime, plain_number, show_token, to_nanoseconds
from headrace.monitor.jetstream import describe_config, describe_limits, describe_stats
from headrace.monitor.query import Query
from headrace.monitor.usage import resident_bytes

NO_STATISTICS = {"clients": 0, "routes": 0, "gateways": 0, "leafs": 0}


def answer_varz(context: Context, query: Query) -> Answer:
    context.request_counts["/varz"] += 1
    return answer_document(make_varz(context))


def make_varz(context: Context) -> dict[str, Any]:
    """All keys of nats-server, in its order, except those that would be wrong (see docs/monitoring.md)."""
    broker = context.broker
    now = time.time_ns()
    hub = broker.hub
    return {
        **_describe_settings(context),
        "start": format_time(broker.started_at),
        "now": format_time(now),
        "uptime": format_uptime(now - broker.started_at),
        "mem": resident_bytes(),
        "cores": os.cpu_count(),
        "gomaxprocs": 1,
        "cpu": plain_number(context.processor_share.read()),
        "connections": len(broker.connections),
        "total_connections": broker.total_connections,
        "routes": 0,
        "remotes": 0,
        "leafnodes": 0,
        "in_msgs": hub.in_msgs,
        "in_bytes": hub.in_bytes,
        "in_client_msgs": hub.in_msgs,
        "in_client_bytes": hub.in_bytes,
        "out_msgs": hub.out_msgs,
        "out_bytes": hub.out_bytes,
        "out_client_msgs": hub.out_msgs,
        "out_client_bytes": hub.out_bytes,
        "slow_consumers": broker.slow_consumers,
        "stale_connections": broker.stale_connections,
        "stalled_clients": hub.stalls,
        "subscriptions": sum(account.interest.count for account in broker.accounts),
        "http_req_stats": dict(sorted(context.request_counts.items())),
        "config_load_time": format_time(broker.configured_at),
        "config_digest": broker.options.config_digest,
        **_describe_labels(context),
        "slow_consumer_stats": {**NO_STATISTICS, "clients": broker.slow_consumers},
        "stale_connection_stats": {**NO_STATISTICS, "clients": broker.stale_connections},
        "disk_io_wait_stats": {"waiters": 0, "waits": 0, "wait_time": 0, "max_wait_time": 0},
    }


def _describe_settings(context: Context) -> dict[str, Any]:
    broker = context.broker
    options = broker.options
    host, port = options.host, broker.port
    if options.client_advertise:
        host, port = split_advertised(options.client_advertise, port)
    return {
        "server_id": broker.server_id,
        "server_name": options.server_name or broker.server_id,
        "version": NATS_VERSION,
        "proto": CLIENT_PROTOCOL,
        "go": f"python{platform.python_version()}",
        "host": host,
        "port": port,
        **({"auth_required": True} if broker.authenticator.required else {}),
        **({"tls_required": True} if options.tls_required else {}),
        **({"tls_verify": True} if options.tls and options.tls.verify else {}),
        "max_connections": options.max_connections,
        **({"max_subscriptions": options.max_subscriptions} if options.max_subscriptions else {}),
        "ping_interval": to_nanoseconds(options.ping_interval),
        "ping_max": options.ping_max,
        "http_host": options.monitor_host,
        "http_port": options.http_port,
        "http_base_path": "" if options.http_base_path == "/" else options.http_base_path,
        "https_port": options.https_port,
        "auth_timeout": plain_number(options.auth_timeout),
        "max_control_line": options.max_control_line,
        "max_payload": options.max_payload,
        "max_pending": options.max_pending,
        "cluster": {},
        "gateway": {},
        "leaf": {},
        "mqtt": {},
        "websocket": _describe_websocket(broker),
        "jetstream": _describe_jetstream(context),
        "tls_timeout": plain_number(options.tls_timeout),
        "write_deadline": to_nanoseconds(options.write_deadline),
    }


def _describe_websocket_tls(tls: TlsSettings | None) -> dict[str, Any]:
    if tls is None:
        return {}
    expires_at = format_time(int(tls.expires_at) * 1_000_000_000) if tls.expires_at else ""
    return {
        "tls_map": tls.maps_users,
        "tls_pinned_certs": sorted(tls.pinned_certificates),
        "tls_cert_not_after": expires_at,
    }


def _describe_websocket(broker: Broker) -> dict[str, Any]:
    """What is not set is left out."""
    options = broker.options.websocket
    described = {
        "host": options.host if options.port else "",
        "port": broker.websocket.port if broker.websocket else 0,
        "advertise": options.advertise,
        "no_auth_user": options.no_auth_user,
        "jwt_cookie": options.jwt_cookie,
        "handshake_timeout": to_nanoseconds(options.handshake_timeout),
        "auth_timeout": plain_number(options.auth_timeout),
        "no_tls": options.no_tls,
        **_describe_websocket_tls(options.tls),
        "same_origin": options.same_origin,
        "allowed_origins": list(options.allowed_origins),
        "compression": options.compression,
    }
    return {name: value for name, value in described.items() if value}


def _describe_jetstream(context: Context) -> dict[str, Any]:
    jetstream = context.jetstream
    if jetstream is None:
        return {}
    return {
        "config": describe_config(jetstream.options),
        "stats": describe_stats(jetstream),
        "limits": describe_limits(jetstream.options),
    }


def _describe_labels(context: Context) -> dict[str, Any]:
    options = context.broker.options
    labels: dict[str, Any] = {}
    if options.tags:
        labels["tags"] = list(options.tags)
    if options.metadata:
        labels["metadata"] = dict(sorted(options.metadata.items()))
    if operators := options.trust.operators:
        labels["trusted_operators_jwt"] = list(operators)
        labels["trusted_operators_claim"] = [show_token(token) for token in operators]
    if options.system_account_name:
        labels["system_account"] = options.system_account_name
    if options.tls and options.tls.expires_at:
        labels["tls_cert_not_after"] = format_time(int(options.tls.expires_at) * 1_000_000_000)
    return labels
