"""Subjects and the relations between them: valid, literal, matches, overlaps, is a subset.

A subject is a list of dot-separated tokens. The token `*` matches exactly one token, a last token `>` one or
more. Anything else is literal, so `foo*` is a plain word. Names and corner cases follow nats-server:
`overlap` and the right side of `is_subset` look for a wildcard at the start of a token, and which streams are
accepted depends on that.

Subjects are str here, because they come from configurations and requests. A subject from the wire is bytes
and may not be valid UTF-8: `decode` and `encode` convert without loss.
"""

PARTIAL_WILDCARD = "*"
FULL_WILDCARD = ">"
SEPARATOR = "."
_WHITESPACE = frozenset("\t\n\f\r ")


def decode(subject: bytes) -> str:
    """The subject as str; `encode` restores bytes that are not UTF-8."""
    return subject.decode("utf-8", "surrogateescape")


def encode(subject: str) -> bytes:
    return subject.encode("utf-8", "surrogateescape")


def is_utf8(subject: str) -> bool:
    """Whether what `decode` returned can be written as JSON."""
    try:
        subject.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_valid_subject(subject: str) -> bool:
    """No empty token, no whitespace, and `>` only at the end. Wildcards are allowed."""
    *heads, last = subject.split(SEPARATOR)
    if not last or FULL_WILDCARD in heads or "" in heads:
        return False
    return _WHITESPACE.isdisjoint(subject)


def is_valid_literal(subject: str) -> bool:
    """No empty token and no wildcard. Whitespace is not checked: subjects on the wire cannot have any."""
    tokens = subject.split(SEPARATOR)
    return not ("" in tokens or PARTIAL_WILDCARD in tokens or FULL_WILDCARD in tokens)


def is_valid_publish_subject(subject: str) -> bool:
    """A valid subject without wildcards."""
    return is_valid_subject(subject) and not has_wildcard(subject)


def has_wildcard(subject: str) -> bool:
    tokens = subject.split(SEPARATOR)
    return PARTIAL_WILDCARD in tokens or FULL_WILDCARD in tokens


def matches(subject: str, pattern: str) -> bool:
    """Whether a literal subject matches the pattern."""
    return subject == pattern or is_subset(subject, pattern)


def is_subset(subject: str, of: str) -> bool:
    """Whether every subject that matches the first also matches the second."""
    return is_subset_of_tokens(subject.split(SEPARATOR), of.split(SEPARATOR))


def is_subset_of_tokens(tokens: list[str], of: list[str]) -> bool:
    for place, wanted in enumerate(of):
        if place >= len(tokens) or not wanted:
            return False
        if wanted == FULL_WILDCARD:
            return True
        token = tokens[place]
        if not token or token == FULL_WILDCARD:
            return False
        if token == PARTIAL_WILDCARD:
            if wanted != PARTIAL_WILDCARD:
                return False
        elif wanted[0] != PARTIAL_WILDCARD and token != wanted:
            return False
    return len(tokens) == len(of)


def overlap(first: str, second: str) -> bool:
    """Whether one literal subject can match both."""
    if first == second:
        return True
    left, right = first.split(SEPARATOR), second.split(SEPARATOR)
    left_wild, right_wild = has_wildcard(first), has_wildcard(second)
    if not left_wild and not right_wild:
        return False
    if not left_wild:
        return is_subset_of_tokens(left, right)
    if not right_wild:
        return is_subset_of_tokens(right, left)
    if len(left) != len(right):
        shorter = left if len(left) < len(right) else right
        if FULL_WILDCARD not in shorter:
            return False
    return all(_tokens_can_match(one, other) for one, other in zip(left, right, strict=False))


def _tokens_can_match(one: str, other: str) -> bool:
    if not one or not other:
        return False
    return one[0] in "*>" or other[0] in "*>" or one == other
