"""What nats-server answers to each mistake of a peer, and whether it closes the connection.

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

    def describe(self, detail: bytes) -> str:
        return self.text.replace("{}", quote(detail))


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
    "auth_timeout": Violation("Authentication Timeout", "Authentication Timeout"),
    "stale": Violation("Stale Connection", "Stale Connection"),
    "connections": Violation("maximum connections exceeded", "Maximum Connections Exceeded"),
    "client_protocol": Violation("invalid client protocol", "Bad Client Protocol Version"),
    "no_responders": Violation("no responders requires headers support", "No Responders Requires Headers"),
    "subscriptions": Violation("maximum subscriptions exceeded"),
    "subject": Violation("Invalid Subject", is_logged=False),
    "subject_tokens": Violation("Permissions Violation for Subscription to {}, too many tokens"),
    "publish_subject": Violation("Invalid Publish Subject", is_logged=False),
    "reserved_subject": Violation("Permissions Violation for Publish to {}"),
    "reserved_reply": Violation("Permissions Violation for Publish with Reply of {}"),
    "reserved_queue": Violation('Permissions Violation for Subscription to {} using queue "_sys_"'),
}


def encode_error(text: str) -> bytes:
    return f"-ERR '{text}'\r\n".encode()
