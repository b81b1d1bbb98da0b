# The small pieces of the client protocol's grammar, inlined into the parser.
#
# They follow nats-server's parser byte by byte: an error is raised at the first byte that cannot be right.

from libc.stdint cimport uint32_t
from libc.string cimport memchr, memcmp, memmove

from headrace.engine.basics.decimals cimport parse_decimal

cdef enum Operation:
    PUB, HPUB, SUB, UNSUB, CONNECT, PING, PONG, OK, ERR, INFO, HMSG, UNFINISHED, UNKNOWN

cdef extern from *:
    """
    static const char *const headrace_names[11] = {
        "PUB", "HPUB", "SUB", "UNSUB", "CONNECT", "PING", "PONG", "+OK", "-ERR", "INFO", "HMSG"};
    static const int headrace_name_lengths[11] = {3, 4, 3, 5, 7, 4, 4, 3, 4, 4, 4};
    """
    const char *NAMES "headrace_names"[11]
    const int NAME_LENGTHS "headrace_name_lengths"[11]

cdef struct Token:
    char *start
    Py_ssize_t length

cdef struct PublishArguments:
    # PUB <subject> [reply] <size>, HPUB <subject> [reply] <header size> <size>
    Token tokens[4]                # the first is the subject; the second is the reply, if there is one
    int count
    Py_ssize_t reply_length        # 0: no reply
    Py_ssize_t header
    Py_ssize_t size


cdef inline bint is_space(char byte) noexcept:
    return byte == c' ' or byte == c'\t'


cdef inline int recognise(const char *at, const char *end) noexcept:
    """The operation that starts here, UNFINISHED if more bytes may make it one, UNKNOWN if they cannot."""
    cdef int candidate, k, available
    cdef int answer = UNKNOWN
    cdef char byte
    for candidate in range(11):
        available = NAME_LENGTHS[candidate]
        if end - at < available:
            available = <int> (end - at)
        for k in range(available):
            byte = at[k]
            if c'a' <= byte <= c'z':
                byte = byte - 32
            if byte != NAMES[candidate][k]:
                break
        else:
            if available == NAME_LENGTHS[candidate]:
                return candidate
            answer = UNFINISHED
    return answer


cdef inline Py_ssize_t parse_size(const char *at, Py_ssize_t length) noexcept:
    """A decimal number of at most nine digits, otherwise -1."""
    return <Py_ssize_t> parse_decimal(at, length, 9)


cdef inline int split(char *at, char *end, Token *tokens, int most) noexcept:
    """Split at spaces and tabs. Returns the number of tokens, `most` + 1 if there are more."""
    cdef int count = 0
    while at < end:
        if is_space(at[0]):
            at += 1
            continue
        if count == most:
            return most + 1
        tokens[count].start = at
        at += 1
        # One comparison is enough for nearly every byte; only control characters need the others.
        while at < end and (<unsigned char> at[0] > c' ' or not is_space(at[0])):
            at += 1
        tokens[count].length = at - tokens[count].start
        count += 1
    return count


cdef inline bint split_publish(int operation, char *at, char *end, PublishArguments *arguments) noexcept:
    """The arguments of a PUB or HPUB; False if they are wrong."""
    cdef int count, sizes = 2 if operation == HPUB else 1
    if operation == HMSG:
        # No client has a reason to send this. nats-server treats it as an empty message to no subject.
        arguments.tokens[0].start = arguments.tokens[1].start = at
        arguments.tokens[0].length = 0
        arguments.count = 0
        arguments.reply_length = arguments.header = arguments.size = 0
        return True
    count = split(at, end, arguments.tokens, 4)
    if not sizes + 1 <= count <= sizes + 2:
        return False
    arguments.count = count
    arguments.reply_length = arguments.tokens[1].length if count == sizes + 2 else 0
    arguments.size = parse_size(arguments.tokens[count - 1].start, arguments.tokens[count - 1].length)
    arguments.header = 0
    if operation == HPUB:
        arguments.header = parse_size(arguments.tokens[count - 2].start, arguments.tokens[count - 2].length)
    return arguments.size >= 0 and 0 <= arguments.header <= arguments.size


cdef inline bint has_usual_form(int operation, const PublishArguments *arguments, const char *payload) noexcept:
    """Whether what follows the subject is as we would write it in a MSG or HMSG, so that it can be copied."""
    cdef Py_ssize_t usual = 2
    cdef int k
    if operation == HMSG:
        return True
    for k in range(1, arguments.count):
        usual += arguments.tokens[k].length + (k > 1)
        if k > 1 and (arguments.tokens[k].start - 1)[0] != c' ':
            return False
    return payload - arguments.tokens[1].start == usual and (payload - 2)[0] == c'\r' \
        and not (operation == HPUB and arguments.header == 0)


cdef inline bint is_literal_subject(const char *subject, Py_ssize_t length) noexcept:
    """Whether a pedantic publisher may use it: no empty token, and no token that is a wildcard."""
    cdef Py_ssize_t k, token = 0
    for k in range(length + 1):
        if k == length or subject[k] == c'.':
            if k == token or (k - token == 1 and (subject[token] == c'*' or subject[token] == c'>')):
                return False
            token = k + 1
    return True


cdef inline bint starts_with(const char *text, Py_ssize_t length, const char *prefix, Py_ssize_t wanted) noexcept:
    return length > wanted and memcmp(text, prefix, wanted) == 0


cdef inline char *shorten_spaces(char *at, char *end, int name_length) noexcept:
    """Move an operation to the end of the spaces that follow it, so that one of them is left."""
    memmove(end - name_length - 1, at, name_length + 1)
    return end - name_length - 1


cdef inline bint is_reserved_subject(const char *subject, uint32_t length) noexcept:
    """Whether it is a subject of gateways or server groups, to which no client publishes."""
    cdef char first = subject[0] if length else 0
    return first == c'_' and starts_with(subject, length, b'_GR_.', 5) \
        or first == c'$' and starts_with(subject, length, b'$NRG.', 5)


cdef inline bint is_reserved_reply(const char *reply, Py_ssize_t length) noexcept:
    return reply[0] == c'_' and (starts_with(reply, length, b'_R_.', 3) and reply[3] == c'.'
                                 or starts_with(reply, length, b'_GR_.', 5)) \
        or reply[0] == c'$' and starts_with(reply, length, b'$JS.ACK.', 8)


cdef inline bint starts_with_any_case(const char *text, const char *lower, Py_ssize_t length) noexcept:
    """Whether a text starts with these letters; the caller has checked that it is long enough."""
    cdef Py_ssize_t k
    for k in range(length):
        if (text[k] | 32) != lower[k]:
            return False
    return True


cdef inline bint asks_for_trace(const char *headers, Py_ssize_t length, bint with_parent) noexcept:
    """Whether one of the headers is Nats-Trace-Dest or, if wanted, a traceparent in upper or lower case.

    Every message with headers pays for this, so it searches for an N, which few headers contain: searching for line
    ends would take three times as long.
    """
    cdef const char *end = headers + length
    cdef const char *at = headers + 8            # after NATS/1.0
    while end - at > 17:                         # a line end, the name and its colon
        at = <const char *> memchr(at + 1, c'N', end - at - 1)
        if at == NULL:
            break
        if (at - 1)[0] == c'\n' and end - at > 16 and memcmp(at, b'Nats-Trace-Dest:', 16) == 0:
            return True
    return with_parent and has_trace_parent(headers, length)


cdef inline bint has_trace_parent(const char *headers, Py_ssize_t length) noexcept:
    cdef const char *end = headers + length
    cdef const char *at = <const char *> memchr(headers, c'\n', length)
    while at != NULL and end - at > 13:
        if at[12] == c':' and starts_with_any_case(at + 1, b'traceparent', 11):
            return True
        at = <const char *> memchr(at + 1, c'\n', end - at - 1)
    return False
