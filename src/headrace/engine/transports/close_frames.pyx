"""Close frames, and which one a peer gets for which reason: those of nats-server."""

from libc.stdint cimport uint8_t

from headrace.engine.transports.frames cimport CLOSE, FINAL_BIT, LONGEST_CONTROL, LONGEST_SERVER_HEAD, write_head

NORMAL_CLOSURE, GOING_AWAY, PROTOCOL_ERROR = 1000, 1001, 1002
POLICY_VIOLATION, TOO_BIG, INTERNAL_ERROR = 1008, 1009, 1011


cdef bytes encode_close(int status, bytes text):
    """A whole frame. A text that is too long ends in three dots."""
    cdef uint8_t head[LONGEST_SERVER_HEAD]
    cdef bytes payload
    if len(text) > LONGEST_CONTROL - 2:
        text = text[:LONGEST_CONTROL - 5] + b'...'
    payload = status.to_bytes(2, 'big') + text
    return (<char *> head)[:write_head(head, CLOSE | FINAL_BIT, len(payload))] + payload


# By the reason why a link was closed. None: the peer has hung up, does not read, or was told already.
GOODBYES = {
    reason: encode_close(status, reason.encode()) for status, reasons in {
        NORMAL_CLOSURE: ['Client Closed'],
        POLICY_VIOLATION: ['Authentication Timeout', 'Authentication Failure', 'Maximum Account Connections Exceeded',
                           'Maximum Connections Exceeded', 'Maximum Control Line Exceeded',
                           'Maximum Subscriptions Exceeded', 'Missing Account', 'Authentication Expired',
                           'Credentials Revoked'],
        PROTOCOL_ERROR: ['Parse Error', 'Protocol Violation', 'Bad Client Protocol Version'],
        TOO_BIG: ['Maximum Message Payload Exceeded'],
        GOING_AWAY: ['Stale Connection', 'Server Shutdown'],
        INTERNAL_ERROR: ['Message Header Violation', 'No Responders Requires Headers', 'Internal Error'],
    }.items() for reason in reasons
} | dict.fromkeys(['Read Error', 'Write Error', 'Slow Consumer (Pending Bytes)', 'Slow Consumer (Write Deadline)',
                   'TLS Handshake Failure'])
OTHER_GOODBYE = encode_close(INTERNAL_ERROR, b'Internal Error')


cdef bytes goodbye_for(object reason):
    """For a link that was closed for this reason; None: nothing is said."""
    return GOODBYES.get(reason, OTHER_GOODBYE)
