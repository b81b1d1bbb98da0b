"""Every session, by topic."""

from tests.interop import (
    sessions_accounts,
    sessions_auth,
    sessions_callout,
    sessions_connect,
    sessions_delivery,
    sessions_grammar,
    sessions_headers,
    sessions_imports,
    sessions_js_account,
    sessions_js_acks,
    sessions_js_backup,
    sessions_js_broken,
    sessions_js_consumers,
    sessions_js_delivery,
    sessions_js_features,
    sessions_js_messages,
    sessions_js_streams,
    sessions_jwt,
    sessions_limits,
    sessions_mappings,
    sessions_nkeys,
    sessions_permissions,
    sessions_permissions_publish,
    sessions_permissions_queues,
    sessions_permissions_responses,
    sessions_permissions_streams,
    sessions_permissions_subscribe,
    sessions_subjects,
    sessions_tls,
    sessions_websocket,
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
    "nkeys": sessions_nkeys.SESSIONS,
    "jwt": sessions_jwt.SESSIONS,
    "callout": sessions_callout.SESSIONS,
    "imports": sessions_imports.SESSIONS,
    "mappings": sessions_mappings.SESSIONS,
    "writes": sessions_writes.SESSIONS,
    "permissions": sessions_permissions.PERMISSIONS,
    "permissions to publish": sessions_permissions_publish.SESSIONS,
    "permissions to subscribe": sessions_permissions_subscribe.SESSIONS,
    "permissions of queues": sessions_permissions_queues.SESSIONS,
    "permissions to respond": sessions_permissions_responses.SESSIONS,
    "websocket": sessions_websocket.SESSIONS,
    "accounts": sessions_accounts.SESSIONS + sessions_permissions.ACCOUNTS,
    "tls": sessions_tls.SESSIONS,
}

# What headrace says it does not support yet; `test_sessions.py` notices when that is no longer true.
LATER_TOPICS: dict[str, list[Session]] = {}

STREAM_TOPICS: dict[str, list[Session]] = {
    "streams": sessions_js_streams.SESSIONS,
    "messages": sessions_js_messages.SESSIONS,
    "consumers": sessions_js_consumers.SESSIONS,
    "deliveries": sessions_js_delivery.SESSIONS,
    "acknowledgements": sessions_js_acks.SESSIONS,
    "features": sessions_js_features.SESSIONS,
    "account": sessions_js_account.SESSIONS,
    "backup": sessions_js_backup.SESSIONS,
    "broken requests": sessions_js_broken.SESSIONS,
    "permissions": sessions_permissions_streams.SESSIONS,
}

# Sessions in which headrace is known to differ; `test_sessions.py` notices when that is no longer true.
STILL_DIFFERENT: frozenset[str] = frozenset()

STREAM_SESSIONS: list[Session] = [session for topic in STREAM_TOPICS.values() for session in topic]
SESSIONS: list[Session] = [session for topic in TOPICS.values() for session in topic]
LATER_SESSIONS: list[Session] = [session for topic in LATER_TOPICS.values() for session in topic]
