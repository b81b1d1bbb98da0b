"""Every session, by topic."""

from tests.interop import (
    sessions_auth,
    sessions_connect,
    sessions_delivery,
    sessions_grammar,
    sessions_headers,
    sessions_js_account,
    sessions_js_broken,
    sessions_js_consumers,
    sessions_js_delivery,
    sessions_js_features,
    sessions_js_messages,
    sessions_js_streams,
    sessions_limits,
    sessions_permissions,
    sessions_subjects,
    sessions_writes,
)
from tests.interop.session import Session

TOPICS: dict[str, list[Session]] = {
    "grammar": sessions_grammar.SESSIONS,
    "connect": sessions_connect.SESSIONS,
    "subjects": sessions_subjects.SESSIONS,
    "delivery": sessions_delivery.SESSIONS,
    "headers": sessions_headers.SESSIONS,
    "limits": sessions_limits.SESSIONS,
    "auth": sessions_auth.SESSIONS,
    "writes": sessions_writes.SESSIONS,
}

# What headrace says it does not support yet; `test_sessions.py` notices when that is no longer true.
LATER_TOPICS: dict[str, list[Session]] = {
    "permissions": sessions_permissions.SESSIONS,
}

STREAM_TOPICS: dict[str, list[Session]] = {
    "streams": sessions_js_streams.SESSIONS,
    "messages": sessions_js_messages.SESSIONS,
    "consumers": sessions_js_consumers.SESSIONS,
    "deliveries": sessions_js_delivery.SESSIONS,
    "features": sessions_js_features.SESSIONS,
    "account": sessions_js_account.SESSIONS,
    "broken requests": sessions_js_broken.SESSIONS,
}

# Sessions in which headrace is known to differ; `test_sessions.py` notices when that is no longer true.
STILL_DIFFERENT: frozenset[str] = frozenset()

STREAM_SESSIONS: list[Session] = [session for topic in STREAM_TOPICS.values() for session in topic]
SESSIONS: list[Session] = [session for topic in TOPICS.values() for session in topic]
LATER_SESSIONS: list[Session] = [session for topic in LATER_TOPICS.values() for session in topic]
