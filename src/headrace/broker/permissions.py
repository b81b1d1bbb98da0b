"""The permissions of connections: from the rules of users to what the engine checks, and what it says."""

from __future__ import annotations

from weakref import WeakValueDictionary

from headrace.config.identity import Permissions, SubjectRules
from headrace.engine.core.permissions import PermissionSet
from headrace.go_formats import quote

SYSTEM_QUEUE = b"_sys_"
Rule = tuple[bytes, bytes | None]


class PermissionSets:
    """One set, and so one table of verdicts, for all connections with the same rules."""

    def __init__(self) -> None:
        self._sets: WeakValueDictionary[Permissions, PermissionSet] = WeakValueDictionary()

    def of(self, permissions: Permissions | None) -> PermissionSet | None:
        """None: everything is allowed."""
        if permissions is None:
            return None
        found = self._sets.get(permissions)
        if found is None:
            found = self._sets[permissions] = compile_permissions(permissions)
        return found


def compile_permissions(permissions: Permissions) -> PermissionSet:
    publish = permissions.publish or SubjectRules()
    subscribe = permissions.subscribe or SubjectRules()
    responses = permissions.responses
    allow = publish.allow
    return PermissionSet(
        publish_allow=None if allow is None else [_encode(subject) for subject in allow],
        publish_deny=[_encode(subject) for subject in publish.deny],
        subscribe_allow=[_split(rule) for rule in subscribe.allow or ()],
        subscribe_deny=[_split(rule) for rule in subscribe.deny],
        max_responses=responses.max_messages if responses else 0,
        response_seconds=responses.seconds if responses else 0,
    )


def _encode(subject: str) -> bytes:
    return subject.encode("utf-8", "surrogateescape")


def _split(rule: str) -> Rule:
    """A rule for subscriptions is a subject, or a subject and a queue."""
    subject, *queue = rule.split()
    return _encode(subject), _encode(queue[0]) if queue else None


def may_subscribe(permissions: PermissionSet | None, subject: bytes, queue: bytes | None) -> bool:
    return queue != SYSTEM_QUEUE and (permissions is None or permissions.may_subscribe(subject, queue))


# What nats-server says


def refusal(subject: bytes, queue: bytes | None) -> str:
    return f"Permissions Violation for Subscription to {_wanted(subject, queue)}"


def refusal_in_log(subject: bytes, queue: bytes | None, sid: bytes) -> str:
    named = "" if queue is None else f" Queue: {quote(queue)},"
    shown = sid.decode("utf-8", "surrogateescape")
    return f"Subscription Violation - Subject {quote(subject)},{named} SID {shown}"


def removal(subject: bytes, queue: bytes | None, sid: bytes) -> str:
    """A reload has changed what it may subscribe to."""
    return f"{refusal(subject, queue)} (sid {quote(sid)})"


def removal_in_log(subject: bytes, queue: bytes | None, sid: bytes, user: str) -> str:
    named = quote(user) if user else '"N/A"'
    return f"Removed sub {_wanted(subject, queue)} (sid {quote(sid)}) for User {named} - not authorized"


def _wanted(subject: bytes, queue: bytes | None) -> str:
    return quote(subject) if queue is None else f"{quote(subject)} using queue {quote(queue)}"
