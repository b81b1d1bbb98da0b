"""What nats-server permits, as a few plain functions over strings: the oracle for verdicts and deliveries.

Nothing here is taken from the engine. A rule of subscriptions is (subject, queue); the queue is None if the
rule has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Rule = tuple[str, str | None]


def rule_matches(rule: str, subject: str) -> bool:
    """Tokens of the subject are only text, even `*` and `>`; a subject with an empty one matches nothing."""
    rule_tokens, tokens = rule.split("."), subject.split(".")
    if "" in tokens:
        return False
    if rule_tokens[-1] == ">":
        rule_tokens.pop()
        if len(tokens) <= len(rule_tokens):
            return False
        tokens = tokens[: len(rule_tokens)]
    return len(tokens) == len(rule_tokens) and all(
        wanted in ("*", token) for wanted, token in zip(rule_tokens, tokens, strict=True)
    )


def queue_matches(rule: str, queue: str) -> bool:
    """A rule may have wildcards, and so may the queue of a SUB, which then is not a wider one."""
    if rule == queue:
        return True
    wanted, tokens = rule.split("."), queue.split(".")
    if not {"*", ">"} & set(wanted):
        return False
    for place, token in enumerate(wanted):
        if place == len(tokens):
            return False
        if token == ">":
            return True
        if tokens[place] in ("", ">"):
            return False
        if token != "*" and token != tokens[place]:
            return False
    return len(wanted) == len(tokens)


def is_valid_subscription(subject: str) -> bool:
    tokens = subject.split(".")
    return "" not in tokens and ">" not in tokens[:-1]


@dataclass(frozen=True)
class Responses:
    max_messages: int
    is_over_at_once: bool = False


@dataclass(frozen=True)
class Permissions:
    publish_allow: tuple[str, ...] = ()  # empty: everything
    publish_deny: tuple[str, ...] = ()
    subscribe_allow: tuple[Rule, ...] = ()  # empty: everything
    subscribe_deny: tuple[Rule, ...] = ()
    responses: Responses | None = None

    def may_publish(self, subject: str) -> bool:
        """Apart from responses."""
        if self.publish_allow:
            allowed = any(rule_matches(rule, subject) for rule in self.publish_allow)
        else:
            allowed = self.responses is None
        return allowed and not any(rule_matches(rule, subject) for rule in self.publish_deny)

    def may_subscribe(self, subject: str, queue: str | None) -> bool:
        allowed = not self.subscribe_allow or self._is_allowed(subject, queue)
        return allowed and not self.is_denied(subject, queue)

    def _is_allowed(self, subject: str, queue: str | None) -> bool:
        matching = [name for rule, name in self.subscribe_allow if rule_matches(rule, subject)]
        queues = [name for name in matching if name is not None]
        if queue is not None and queues:
            return any(queue_matches(name, queue) for name in queues)
        return None in matching

    def is_denied(self, subject: str, queue: str | None) -> bool:
        return any(
            rule_matches(rule, subject)
            and (name is None or (queue is not None and queue_matches(name, queue)))
            for rule, name in self.subscribe_deny
        )

    def may_receive(self, subscribed: str, queue: str | None, published: str, *, strictly: bool) -> bool:
        """Whether an accepted subscription gets a message.

        `strictly`: only what is allowed. nats-server accepts `foo.>` from who may subscribe to `foo.*`, and
        then delivers foo.a.b, too. Headrace does not deliver it.
        """
        if not rule_matches(subscribed, published) or self.is_denied(published, queue):
            return False
        return (
            not strictly
            or not self.subscribe_allow
            or any(
                rule_matches(rule, published)
                and (name is None or (queue is not None and queue_matches(name, queue)))
                for rule, name in self.subscribe_allow
            )
        )


@dataclass
class Answering:
    """Which replies one connection may still send. A request that is repeated uses up one of them."""

    permissions: Permissions
    counts: dict[str, int] = field(default_factory=dict)

    def got(self, reply: str) -> None:
        if not self.may_publish(reply):
            self.counts[reply] = 0

    def may_publish(self, subject: str) -> bool:
        if self.permissions.may_publish(subject):
            return True
        responses = self.permissions.responses
        if responses is None or subject not in self.counts:
            return False
        self.counts[subject] += 1
        if responses.is_over_at_once or 0 < responses.max_messages < self.counts[subject]:
            del self.counts[subject]
            return False
        return True
