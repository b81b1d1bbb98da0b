"""What a subscription gets from an imported stream: every short pattern, form of import and subject."""

from __future__ import annotations

from itertools import product

import pytest

from headrace.accounts.stream_imports import ImportedStream
from headrace.config.identity import StreamImport
from headrace.engine.core.interest import Interest
from tests.accounts.test_shadow_model import FORMS, local_subject
from tests.model import matches


def words(letters: str, longest: int) -> list[str]:
    return [".".join(word) for size in range(1, longest + 1) for word in product(letters, repeat=size)]


SUBJECTS = [word.encode() for word in words("abx", 3)]
PATTERNS = words("abx*", 3) + [">"] + [f"{word}.>" for word in words("abx*", 2)]


@pytest.mark.parametrize("form", range(len(FORMS)), ids=lambda form: str(FORMS[form][0]))
def test_a_shadow_matches_what_appears_under_a_subject_that_the_subscription_matches(form: int) -> None:
    stream = ImportedStream(Interest(), StreamImport("A", **FORMS[form][0]))
    delivered = stream.delivered or (lambda subject: subject)
    for pattern in PATTERNS:
        shadow = stream.shadow_of(pattern)
        for subject in SUBJECTS:
            local = local_subject(subject, form)
            is_wanted = local is not None and matches(pattern.encode(), local)
            assert (shadow is not None and matches(shadow.encode(), subject)) is is_wanted, (pattern, subject)
            if is_wanted:
                assert delivered(subject) == local
