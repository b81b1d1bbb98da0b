"""What can be wrong with bytes that others sent as JSON; not in `errors`, which loads no msgspec."""

import msgspec

UNREADABLE_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not the JSON it wants: not only errors of its own."""
