"""Who wants to know about a deliver subject: several consumers may deliver to the same one.

The in-process client tells one listener per subject. Here it is shared among all that ask.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from headrace.broker.internal import InternalClient

Listener = Callable[[], None]

_LISTENERS: WeakKeyDictionary[InternalClient, dict[bytes, list[Listener]]] = WeakKeyDictionary()


def watch(client: InternalClient, subject: bytes, listener: Listener) -> None:
    """Call the listener whenever a subscription to exactly this subject comes or goes."""
    subjects = _LISTENERS.setdefault(client, {})
    listeners = subjects.setdefault(subject, [])
    listeners.append(listener)
    if len(listeners) == 1:
        client.watch_interest(subject, lambda _: _tell(listeners))


def unwatch(client: InternalClient, subject: bytes, listener: Listener) -> None:
    subjects = _LISTENERS.get(client, {})
    listeners = subjects.get(subject, [])
    if listener in listeners:
        listeners.remove(listener)
        if not listeners:
            del subjects[subject]
            client.unwatch_interest(subject)


def has_subscriber(client: InternalClient, subject: bytes, group: bytes) -> bool:
    """Whether somebody subscribes exactly this subject, in that queue group or, if it is empty, in none.

    As in nats-server a subscription with wildcards does not count, though it gets what others make flow.
    """
    plain, groups = client.interest.match(subject)
    if not group:
        return any(subscription.subject == subject for subscription in plain)
    return any(
        subscription.subject == subject and subscription.queue == group
        for members in groups
        for subscription in members
    )


def _tell(listeners: list[Listener]) -> None:
    for listener in list(listeners):
        listener()
