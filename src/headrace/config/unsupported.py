"""What nats-server can do and this version cannot yet: one table for directives, one for flags.

None of it is ever ignored. Ignoring a `tls` block would send passwords in clear text, and ignoring a
`cluster` would lose messages, so each is an error that names the capability.
"""

from __future__ import annotations

_TLS = "TLS"
_CLUSTER = "clustering"
_OPERATOR = "operator mode (JWT)"
_PERMISSIONS = "permissions"
_SYSLOG = "syslog"

UNSUPPORTED_DIRECTIVES: dict[str, str] = {
    "tls": _TLS,
    "allow_non_tls": _TLS,
    "ocsp": _TLS,
    "ocsp_cache": _TLS,
    "https": "HTTPS monitoring",
    "https_port": "HTTPS monitoring",
    "cluster": _CLUSTER,
    "gateway": "gateways",
    "leaf": "leaf nodes",
    "leafnodes": "leaf nodes",
    "websocket": "WebSocket",
    "ws": "WebSocket",
    "mqtt": "MQTT",
    "mappings": "subject mappings",
    "maps": "subject mappings",
    "operator": _OPERATOR,
    "operators": _OPERATOR,
    "roots": _OPERATOR,
    "root": _OPERATOR,
    "root_operators": _OPERATOR,
    "root_operator": _OPERATOR,
    "trusted": _OPERATOR,
    "trusted_keys": _OPERATOR,
    "default_sentinel": _OPERATOR,
    "resolver": _OPERATOR,
    "account_resolver": _OPERATOR,
    "accounts_resolver": _OPERATOR,
    "resolver_tls": _OPERATOR,
    "resolver_preload": _OPERATOR,
    "resolver_pinned_accounts": _OPERATOR,
    "remote_syslog": _SYSLOG,
    "prof_block_rate": "profiling",
    "proxies": "the PROXY protocol",
    "feature_flags": "feature flags",
}

UNSUPPORTED_AUTHORIZATION: dict[str, str] = {
    "default_permission": _PERMISSIONS,
    "default_permissions": _PERMISSIONS,
    "permissions": _PERMISSIONS,
    "auth_callout": "the authorization callout",
    "auth_hook": "the authorization callout",
}

UNSUPPORTED_USER: dict[str, str] = {
    "nkey": "nkey users",
    "permission": _PERMISSIONS,
    "permissions": _PERMISSIONS,
    "authorization": _PERMISSIONS,
    "allowed_connection_types": "connection types",
    "connection_types": "connection types",
    "clients": "connection types",
}

UNSUPPORTED_ACCOUNT: dict[str, str] = {
    "nkey": "nkeys of accounts",
    "imports": "imports between accounts",
    "exports": "exports between accounts",
    "mappings": "subject mappings",
    "maps": "subject mappings",
    "default_permissions": _PERMISSIONS,
    "limits": "limits of accounts other than those of jetstream",
    "msg_trace": "message tracing",
    "trace_dest": "message tracing",
}

UNSUPPORTED_FLAGS: dict[str, str] = {
    "tls": _TLS,
    "tlsverify": _TLS,
    "tlscert": _TLS,
    "tlskey": _TLS,
    "tlscacert": _TLS,
    "ms": "HTTPS monitoring",
    "https_port": "HTTPS monitoring",
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
    "help_tls": _TLS,
}


def unsupported_message(name: str, capability: str) -> str:
    return f"{name}: this version of Headrace does not support {capability} yet"
