"""What nats-server can do and this version cannot yet: one table for directives, one for flags.

None of it is ever ignored. Ignoring `ocsp` would accept certificates that were revoked, and ignoring a
`cluster` would lose messages, so each is an error that names the capability.
"""

from __future__ import annotations

_CLUSTER = "clustering"
_SYSLOG = "syslog"

UNSUPPORTED_DIRECTIVES: dict[str, str] = {
    "ocsp": "OCSP",
    "ocsp_cache": "OCSP",
    "cluster": _CLUSTER,
    "gateway": "gateways",
    "leaf": "leaf nodes",
    "leafnodes": "leaf nodes",
    "mqtt": "MQTT",
    "resolver_tls": "TLS of a resolver",
    "remote_syslog": _SYSLOG,
    "prof_block_rate": "profiling",
    "proxies": "the PROXY protocol",
    "feature_flags": "feature flags",
}

UNSUPPORTED_FLAGS: dict[str, str] = {
    "routes": _CLUSTER,
    "cluster": _CLUSTER,
    "cluster_listen": _CLUSTER,
    "cluster_advertise": _CLUSTER,
    "cluster_name": _CLUSTER,
    "no_advertise": _CLUSTER,
    "connect_retries": _CLUSTER,
    "s": _SYSLOG,
    "syslog": _SYSLOG,
    "r": _SYSLOG,
    "remote_syslog": _SYSLOG,
    "profile": "profiling",
    "help_tls": "help on TLS",
}


def unsupported_message(name: str, capability: str) -> str:
    return f"{name}: this version of Headrace does not support {capability} yet"
