"""python -m tests.interop [NAME...]: play sessions (all whose name contains NAME) and show both transcripts.

Without a name every session is played and only the differences are shown; with `--brief NAME...` those of
the named ones. Exits with 1 if there are any.
"""

from __future__ import annotations

import shutil
import sys

from tests.interop.catalogue import LATER_SESSIONS, SESSIONS, STREAM_SESSIONS
from tests.interop.replay import Stage
from tests.interop.session import Session
from tests.interop.show import differences, side_by_side


def _named(names: list[str]) -> list[Session]:
    every_session = SESSIONS + STREAM_SESSIONS + LATER_SESSIONS
    return [session for session in every_session if any(name in session.name for name in names)]


def main(names: list[str]) -> int:
    brief = not names or names[0] == "--brief"
    chosen = SESSIONS if not names else _named(names[1:] if brief else names)
    different = 0
    with Stage() as stage:
        for session in chosen:
            reference, ours = stage.compare(session)
            difference = differences(reference, ours)
            different += bool(difference)
            if not brief:
                width = max(80, shutil.get_terminal_size((160, 50)).columns)
                print(f"\n=== {session.name}: {'DIFFERENT' if difference else 'same'}")
                print(side_by_side(reference, ours, width))
            elif difference:
                print(f"\n=== {session.name}\n{difference}")
    print(f"\n{len(chosen)} sessions, {different} different")
    return 1 if different or not chosen else 0


sys.exit(main(sys.argv[1:]))
