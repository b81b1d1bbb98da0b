"""What can be wrong with JSON from others; not in `errors`, which does not import msgspec."""

import msgspec

UNREADABLE_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not the expected JSON, which are not only its own errors."""
