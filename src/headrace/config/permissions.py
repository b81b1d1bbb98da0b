"""Reads `permissions` and `default_permissions`: what a user may publish and subscribe to.

permissions: {
  publish: { allow: ["orders.>", "reply.*"], deny: "orders.secret" }
  subscribe: ["orders.*", "shared workers"]    # `shared` only in the queue group `workers`
  allow_responses: { max: 2, expires: "1m" }
}
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from headrace.config.durations import parse_duration
from headrace.config.identity import Permissions, ResponseRule, SubjectRules, User
from headrace.config.problems import Problems
from headrace.config.values import Value
from headrace.go_formats import quote

CONNECTION_TYPES = frozenset(
    {"STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"}
)
WHITE_SPACE = frozenset("\t\n\f\r ")
GO_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    datetime: "time.Time",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def read_permissions(block: Value, problems: Problems) -> Permissions:
    """Errors in its fields go to `problems`. Raises ConfigError if it is not a map."""
    if not isinstance(block.plain, dict):
        raise block.error("Expected permissions to be a map/struct")
    publish = subscribe = responses = None
    for name, value in block.plain.items():
        lowered = name.lower()
        with problems.collecting():
            if lowered in ("pub", "publish", "import"):
                publish = _read_rules(value, problems, has_queues=False)
            elif lowered in ("sub", "subscribe", "export"):
                subscribe = _read_rules(value, problems, has_queues=True)
            elif lowered in ("allow_responses", "publish_allow_responses"):
                responses = _read_responses(value, problems)
            elif not value.used_as_variable:
                raise value.error(f"Unknown field {quote(name)} parsing permissions")
    return complete_permissions(Permissions(publish, subscribe, responses))


def complete_permissions(permissions: Permissions) -> Permissions:
    """Who may answer may publish nothing else, unless it is allowed."""
    if permissions.responses is None:
        return permissions
    publish = permissions.publish or SubjectRules()
    if publish.allow is not None:
        return permissions
    return msgspec.structs.replace(permissions, publish=SubjectRules((), publish.deny))


def apply_default_permissions(users: tuple[User, ...], default: Permissions | None) -> tuple[User, ...]:
    """Users that have no permissions of their own get these."""
    return tuple(
        msgspec.structs.replace(user, permissions=default) if user.permissions is None else user
        for user in users
    )


def read_connection_types(value: Value, problems: Problems) -> frozenset[str] | None:
    """Of `allowed_connection_types`: one or an array of them. None: all."""
    plain = value.plain
    if isinstance(plain, str):
        names = [plain]
    elif isinstance(plain, list):
        names = []
        for entry in plain:
            with problems.collecting():
                if not isinstance(entry.plain, str):
                    raise entry.error(
                        "error parsing allowed connection types: unsupported type in array "
                        + GO_TYPES[type(entry.plain)]
                    )
                names.append(entry.plain)
    else:
        raise value.error(f"error parsing allowed connection types: unsupported type {GO_TYPES[type(plain)]}")
    upper = [name.upper() for name in names]
    unknown = [name for name in upper if name not in CONNECTION_TYPES]
    if unknown:
        raise value.error(f"invalid connection types [{' '.join(map(quote, unknown))}]")
    return frozenset(upper) or None


# -- subjects


def _read_rules(value: Value, problems: Problems, *, has_queues: bool) -> SubjectRules | None:
    """Subjects that are allowed, or a map of `allow` and `deny`. None: everything is allowed."""
    if not isinstance(value.plain, dict):
        return SubjectRules(_read_subjects(value, has_queues=has_queues) or None)
    if not value.plain:
        return None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    for name, entry in value.plain.items():
        with problems.collecting():
            if name.lower() == "allow":
                allow = _read_subjects(entry, has_queues=has_queues)
            elif name.lower() == "deny":
                deny = _read_subjects(entry, has_queues=has_queues)
            elif not entry.used_as_variable:
                raise entry.error(
                    f"Unknown field name {quote(name)} parsing subject permissions, "
                    "only 'allow' or 'deny' are permitted"
                )
    return SubjectRules(allow or None, deny)  # as in nats-server, an empty list of allowed ones allows all


def _read_subjects(value: Value, *, has_queues: bool) -> tuple[str, ...]:
    plain = value.plain
    if isinstance(plain, str):
        subjects = [plain]
    elif isinstance(plain, list):
        subjects = []
        for entry in plain:
            if not isinstance(entry.plain, str):
                raise entry.error("Subject in permissions array cannot be cast to string")
            subjects.append(entry.plain)
    else:
        raise value.error(
            "Expected subject permissions to be a subject, or array of subjects, got " + GO_TYPES[type(plain)]
        )
    for subject in subjects:
        mistake = find_mistake(subject, has_queues=has_queues)
        if mistake:
            raise value.error(mistake)
    return tuple(subjects)


def find_mistake(subject: str, *, has_queues: bool) -> str:
    """What is wrong with a subject of a rule, in nats-server's words; empty: nothing."""
    if is_valid(subject):
        return ""
    words = subject.split()
    if not has_queues or len(words) != 2:
        return f"subject {quote(subject)} is not a valid subject"
    if not is_valid(words[0]):
        return f"subject {quote(words[0])} is not a valid subject"
    if not is_valid(words[1]):
        return f"queue {quote(words[1])} is not a valid queue"
    return ""


def is_valid(subject: str) -> bool:
    """A subject without empty tokens and white space, whose `>` is the last token."""
    tokens = subject.split(".")
    return all(tokens) and ">" not in tokens[:-1] and not WHITE_SPACE.intersection(subject)


# -- responses


def _read_responses(value: Value, problems: Problems) -> ResponseRule | None:
    plain = value.plain
    if isinstance(plain, bool):
        return ResponseRule() if plain else None
    if not isinstance(plain, dict):
        raise value.error("error parsing response permissions, expected a boolean or a map")
    changes: dict[str, float] = {}
    for name, entry in plain.items():
        lowered = name.lower()
        with problems.collecting():
            if lowered in ("max", "max_msgs", "max_messages", "max_responses"):
                changes["max_messages"] = entry.integer()
            elif lowered in ("expires", "expiration", "ttl"):
                changes["seconds"] = _read_expiry(entry)
            elif not entry.used_as_variable:
                raise entry.error(f"Unknown field {quote(name)} parsing permissions")
    # 0 means the default
    return msgspec.structs.replace(ResponseRule(), **{name: kept for name, kept in changes.items() if kept})


def _read_expiry(value: Value) -> float:
    if not isinstance(value.plain, str):
        raise value.error("error parsing expires, not a duration string")
    try:
        return parse_duration(value.plain)
    except ValueError as error:
        raise value.error(f"error parsing expires: {error}") from None
