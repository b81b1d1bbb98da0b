"""What nats-server answers to each violation by a peer, and whether it closes the connection.

The engine and the connection name a violation by its kind; this table is the one place that knows the texts.
"""

from __future__ import annotations

import msgspec

from headrace.go_formats import quote


class Violation(msgspec.Struct, frozen=True):
    text: str
    """Sent as `-ERR '<text>'`; nothing is sent if it is empty. `{}` is replaced by the detail."""
    close_reason: str = ""
    """As /connz shows it; empty if the connection stays open."""
    is_logged: bool = True
    log_text: str = ""
    """What the log says instead of the text."""

    def describe(self, detail: bytes) -> str:
        return self.text.replace("{}", quote(detail))

    def describe_in_log(self, detail: bytes) -> str:
        text = self.log_text or self.text or self.close_reason
        if "{}" in text:
            return text.replace("{}", quote(detail))
        return f"{text}: {quote(detail)}" if detail else text


VIOLATIONS = {
    "parse": Violation("Unknown Protocol Operation", "Protocol Violation"),
    "arguments": Violation("", "Protocol Violation"),
    "connect": Violation("", "Protocol Violation"),
    "info": Violation("", "Protocol Violation"),
    "headers": Violation("", "Message Header Violation"),
    "control_line": Violation("maximum control line exceeded", "Maximum Control Line Exceeded"),
    "payload": Violation("Maximum Payload Violation", "Maximum Message Payload Exceeded"),
    "peer_error": Violation("", "Parse Error"),
    "authorization": Violation("Authorization Violation", "Authentication Failure"),
    "expired": Violation("User Authentication Expired", "Authentication Expired", is_logged=False),
    "account_expired": Violation("Account Authentication Expired", "Authentication Expired", is_logged=False),
    "revoked": Violation("User Authentication Revoked", "Credentials Revoked", is_logged=False),
    "signing_key": Violation("", "Authentication Failure", is_logged=False),
    "auth_timeout": Violation("Authentication Timeout", "Authentication Timeout"),
    "stale": Violation("Stale Connection", "Stale Connection"),
    "connections": Violation("maximum connections exceeded", "Maximum Connections Exceeded"),
    "account_connections": Violation(
        "maximum account active connections exceeded", "Maximum Account Connections Exceeded"
    ),
    "client_protocol": Violation("invalid client protocol", "Bad Client Protocol Version"),
    "no_responders": Violation("no responders requires headers support", "No Responders Requires Headers"),
    "subscriptions": Violation("maximum subscriptions exceeded"),
    "subject": Violation("Invalid Subject", is_logged=False),
    "subject_tokens": Violation(
        "Permissions Violation for Subscription to {}, too many tokens",
        log_text="Subscription Violation Too Many Tokens - Subject {}",
    ),
    "publish_subject": Violation("Invalid Publish Subject", is_logged=False),
    "publish": Violation(
        "Permissions Violation for Publish to {}", log_text="Publish Violation - Subject {}"
    ),
    "reply": Violation(
        "Permissions Violation for Publish with Reply of {}", log_text="Publish Violation - Reply {}"
    ),
}


def encode_error(text: str) -> bytes:
    return f"-ERR '{text}'\r\n".encode()
