"""The subjects of all streams: finds overlaps without comparing every subject with every other.

A tree of tokens; wildcards are tokens like any other. To find what overlaps a subject, follow its tokens: a
literal one leads to itself and to `*`, a `*` leads everywhere, and a `>` on either side ends the search.
Finding what matches everything that a subject matches works the same way, but a wildcard leads to wildcards
only. A subject with an empty token is not valid and matches nothing, so it is left out.
Subjects that are crafted to be slow (many wildcards, few overlaps) would still stall the server, so a search
gives up after some steps; a configuration that needs more is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headrace.streams.errors import api_error
from headrace.streams.slices import STEP_SUBJECTS, Work

STEPS = 1_000_000
END = ""  # the key for subjects that end at a node; no token is empty
STARRED = "*\n"  # for words such as `*a`; no valid one contains a line break

Node = dict[str, Any]
NextTokens = Callable[[Node, str], Iterable[str]]
OwnerSearch = Callable[[Node, str], bool]


class SubjectTree:
    """Subjects and their owners. `steps` limits all searches together; None means no limit."""

    def __init__(self, steps: int | None = None) -> None:
        self._root: Node = {}
        self._steps = steps

    def add(self, subject: str, owner: str) -> None:
        node, tokens = self._root, subject.split(".")
        if END in tokens:
            return
        for token in tokens:
            node = node.setdefault(token, {})
        node.setdefault(END, set()).add(owner)

    def add_all(self, subjects: Iterable[str], owner: str | None = None) -> Work[None]:
        """Add all of them in steps; without an owner each one's owner is its index."""
        for index, subject in enumerate(subjects):
            if index % STEP_SUBJECTS == 0:
                yield
            self.add(subject, str(index) if owner is None else owner)

    def discard(self, subject: str, owner: str) -> None:
        path: list[tuple[Node, str]] = []
        node = self._root
        for token in subject.split("."):
            if token not in node or token == END:
                return
            path.append((node, token))
            node = node[token]
        owners = node.get(END, set())
        owners.discard(owner)
        if not owners:
            node.pop(END, None)
        for parent, token in reversed(path):
            if parent[token]:
                break
            del parent[token]

    def overlaps(self, subject: str, *, but: str = "") -> bool:
        """Whether an owner other than `but` has a subject that overlaps. May raise ApiError."""
        return self._finds(subject, but, _overlapping_tokens, _has_owner_below)

    def _finds(self, subject: str, but: str, next_tokens: NextTokens, at_full_wildcard: OwnerSearch) -> bool:
        """Follow the tokens of a subject. `next_tokens` says where a token leads to from a node, and
        `at_full_wildcard` whether a `>` finds anything there.
        """
        tokens = subject.split(".")
        to_visit = [(self._root, 0)]
        while to_visit:
            node, depth = to_visit.pop()
            self._count_step()
            if depth == len(tokens):
                if _has_owner(node, but):
                    return True
                continue
            if ">" in node and _has_owner(node[">"], but):
                return True
            if tokens[depth] == ">":
                if at_full_wildcard(node, but):
                    return True
                continue
            to_visit += [(node[key], depth + 1) for key in next_tokens(node, tokens[depth]) if key in node]
        return False

    def _count_step(self) -> None:
        if self._steps is not None:
            self._steps -= 1
            if self._steps < 0:
                raise api_error("stream_invalid_config", err="too many subjects with wildcards")


def _overlapping_tokens(node: Node, token: str) -> Iterable[str]:
    return [key for key in node if key not in (END, ">")] if token == "*" else (token, "*")


def _covering_tokens(_: Node, token: str) -> Iterable[str]:
    return ("*",) if token == "*" else (token, "*", STARRED)


def _has_owner(node: Node, but: str) -> bool:
    """Whether an owner other than `but` has the subject that ends at the node."""
    return any(owner != but for owner in node.get(END, ()))


def _has_owner_below(node: Node, but: str) -> bool:
    to_visit = [child for key, child in node.items() if key != END]
    while to_visit:
        child = to_visit.pop()
        if _has_owner(child, but):
            return True
        to_visit += [grandchild for key, grandchild in child.items() if key != END]
    return False


class FilterTree(SubjectTree):
    """Likewise finds which of many filters matches all that another one does, as `grammar.is_subset` defines
    it: there a word that begins with `*` matches as `*` does, but does not match `*`.
    """

    def add(self, subject: str, owner: str) -> None:
        tokens = subject.split(".")
        if ">" in tokens:
            del tokens[tokens.index(">") + 1 :]  # what follows it means nothing
        super().add(".".join(STARRED if token[:1] == "*" != token else token for token in tokens), owner)

    def covers(self, subject: str, *, but: str) -> bool:
        """Whether another owner's filter matches all that this one does. May raise ApiError."""
        return self._finds(subject, but, _covering_tokens, lambda node, but: False)
