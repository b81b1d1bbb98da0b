"""What a peer may publish and subscribe to.

A PermissionSet is made once from the rules of a user and shared by all links of that user. The rules are
nats-server's: a subject is allowed if an allow rule matches it (or there are none), and no deny rule matches it.
A rule for subscriptions may name a queue, and is then about members of that queue group:

    allow  foo             foo, alone or in any queue group
    allow  foo v1          foo, but only in the queue group v1
    allow  foo, foo v1     foo alone, or in the queue group v1

A publish is checked against 100 rules once per subject: the verdict is kept in a direct-mapped table, whose size bounds
the memory that a peer can make us use. A SUB is checked once.

Deliveries: a wildcard subscription may be wider than what is denied. So a subscription carries a DeliveryFilter, which
is consulted when a route is made; a message along a route costs nothing more. The messages of streams come under
another subject than that of their route, and are checked one by one (there, the verdicts are kept, too).

nats-server lets a user who may subscribe to `foo.*` subscribe to `foo.>`, and then delivers foo.a.b. Here, the
subscription is accepted as well, but gets only what the rules allow.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from headrace.engine.basics.filters cimport Filter, has_no_empty_token, is_literal
from headrace.engine.basics.hashing cimport hash_of
from headrace.engine.basics.system cimport monotonic

import os

cdef uint64_t SLOTS = 1024                   # a power of two
cdef uint32_t LONGEST_KEPT = 256             # bytes of a subject; for a longer one it is computed each time
cdef Py_ssize_t MOST_SHARED_FILTERS = 64     # peers choose the names of queues
cdef Py_ssize_t MOST_AWAITED = 65536         # responses per link; the oldest are dropped
cdef uint64_t NOTES_BETWEEN_PRUNES = 4096
cdef double SECONDS_BETWEEN_PRUNES = 1.0


@cython.final
cdef class Verdicts:
    """The verdicts for the subjects in use: one slot per hash, and the newest replaces the one before."""

    def __cinit__(self):
        self.seed = int.from_bytes(os.urandom(8), 'little')

    def __dealloc__(self):
        cdef uint64_t k
        if self.slots != NULL:
            for k in range(SLOTS):
                PyMem_Free(self.slots[k])
        PyMem_Free(self.slots)

    cdef Verdict *find(self, const char *subject, uint32_t length, uint64_t *hashed) noexcept:
        """NULL: there is none; `hashed` is then for `keep`."""
        cdef Verdict *verdict = self.latest
        if verdict != NULL and verdict.length == length and memcmp(verdict.text, subject, length) == 0:
            return verdict
        hashed[0] = hash_of(subject, length, self.seed)
        if self.slots == NULL:
            return NULL
        verdict = self.slots[hashed[0] & (SLOTS - 1)]
        if verdict == NULL or verdict.hash != hashed[0] or verdict.length != length \
                or memcmp(verdict.text, subject, length) != 0:
            return NULL
        self.latest = verdict
        return verdict

    cdef void keep(self, uint64_t hashed, const char *subject, uint32_t length, bint passes) noexcept:
        """If there is no memory for it, it is computed again the next time."""
        cdef uint64_t slot = hashed & (SLOTS - 1)
        cdef Verdict *verdict
        if length > LONGEST_KEPT:
            return
        if self.slots == NULL:
            self.slots = <Verdict **> PyMem_Calloc(SLOTS, sizeof(Verdict *))
            if self.slots == NULL:
                return
        verdict = <Verdict *> PyMem_Malloc(sizeof(Verdict) + length)
        if verdict == NULL:
            return
        verdict.hash = hashed
        verdict.length = length
        verdict.passes = passes
        memcpy(verdict.text, subject, length)
        PyMem_Free(self.slots[slot])
        self.slots[slot] = self.latest = verdict


# -- rules ------------------------------------------------------------------------------------------------------------

cdef inline bint match(Filter rules, const char *subject, uint32_t length) noexcept:
    """Whether one of them matches. A subject with an empty token matches nothing."""
    return rules is not None and has_no_empty_token(subject, length) and rules.accepts(subject, length)


cdef Filter filter_of_some(patterns):
    """None: there are none. (A Filter of none accepts everything.)"""
    return Filter(tuple(patterns)) if patterns else None


@cython.final
cdef class Rules:
    """Rules for subscriptions: (subject, queue or None) of each."""

    def __init__(self, rules):
        self.plain = filter_of_some([subject for subject, queue in rules if queue is None])
        self.queues = [(Filter((subject,)), queue) for subject, queue in rules if queue is not None]

    cdef bint match_any(self, const char *subject, uint32_t length, bytes queue) except -1:
        """Whether a rule for this queue, or for all queues, matches."""
        if match(self.plain, subject, length):
            return True
        if queue is None:
            return False
        for rule, name in self.queues:
            if match(<Filter> rule, subject, length) and queue_matches(queue, <bytes> name):
                return True
        return False

    def queues_of(self, bytes subject):
        """The queues named by rules for this subject."""
        return [name for rule, name in self.queues if match(<Filter> rule, subject, <uint32_t> len(subject))]


cdef bint queue_matches(bytes queue, bytes rule) except -1:
    """Queue names can have wildcards in rules; a peer's name matches only if it is not wider."""
    cdef list ours, theirs
    if queue == rule:
        return True
    if is_literal(rule, len(rule)):
        return False
    ours = rule.split(b'.')
    theirs = queue.split(b'.')
    for k in range(len(ours)):
        if k >= len(theirs):
            return False
        if ours[k] == b'>':
            return True
        if theirs[k] == b'' or theirs[k] == b'>' or theirs[k] == b'*' and ours[k] != b'*':
            return False
        if ours[k] != theirs[k] and not (<bytes> ours[k]).startswith(b'*'):
            return False
    return len(ours) == len(theirs)


# -- a set of them ----------------------------------------------------------------------------------------------------

@cython.final
cdef class PermissionSet:
    """What the links of a user may do.

    `publish_allow`, `publish_deny`: subjects; None: everything, an empty one: nothing. `subscribe_allow`,
    `subscribe_deny`: pairs of subject and queue (or None). `max_responses`: 0: it may not answer.
    """

    def __init__(self, *, publish_allow=None, publish_deny=(), subscribe_allow=(), subscribe_deny=(),
                 long long max_responses=0, double response_seconds=0):
        self.publishes_nothing = publish_allow is not None and not publish_allow
        self.publish_allow = filter_of_some(publish_allow)
        self.publish_deny = filter_of_some(publish_deny)
        self.limits_publishing = publish_allow is not None or bool(publish_deny)
        self.subscribe_allow = Rules(subscribe_allow) if subscribe_allow else None
        self.subscribe_deny = Rules(subscribe_deny) if subscribe_deny else None
        self.max_responses = max_responses
        self.response_seconds = response_seconds
        self.publish_verdicts = Verdicts()
        self.delivery_filters = {}

    def may_publish(self, bytes subject not None):
        """Not considering responses."""
        return self.allows_publish(subject, <uint32_t> len(subject))

    cdef bint allows_publish(self, const char *subject, uint32_t length) except -1:
        cdef uint64_t hashed = 0
        cdef Verdict *known
        cdef bint passes
        if not self.limits_publishing:
            return True
        known = self.publish_verdicts.find(subject, length, &hashed)
        if known != NULL:
            return known.passes
        passes = not self.publishes_nothing \
            and (self.publish_allow is None or match(self.publish_allow, subject, length)) \
            and not match(self.publish_deny, subject, length)
        self.publish_verdicts.keep(hashed, subject, length, passes)
        return passes

    def may_subscribe(self, bytes subject not None, bytes queue):
        """Whether a SUB is accepted. A wildcard in it is a token like any other: `foo.*` must be allowed as such."""
        cdef uint32_t length = <uint32_t> len(subject)
        cdef bint allowed = True
        if self.subscribe_allow is not None:
            allowed = match(self.subscribe_allow.plain, subject, length)
            if queue is not None:
                names = self.subscribe_allow.queues_of(subject)
                if names:
                    allowed = any(queue_matches(queue, name) for name in names)
        return allowed and (self.subscribe_deny is None
                            or not self.subscribe_deny.match_any(subject, length, queue))

    cdef DeliveryFilter filter_of(self, bytes subject, bytes queue):
        """The filter for an accepted subscription; None: it may get everything."""
        cdef DeliveryFilter found
        if self.subscribe_deny is None and (self.subscribe_allow is None or not subject.endswith(b'>')):
            return None
        found = self.delivery_filters.get(queue)
        if found is None:
            found = DeliveryFilter(self.subscribe_allow, self.subscribe_deny, queue)
            if len(self.delivery_filters) < MOST_SHARED_FILTERS:
                found.verdicts = Verdicts()
                self.delivery_filters[queue] = found
        return found

    def may_deliver(self, bytes subject not None, bytes queue, bytes published not None):
        """Whether a subscription that was accepted gets a message to `published` along its route."""
        cdef DeliveryFilter filter = self.filter_of(subject, queue)
        return filter is None or filter.delivers(published, <uint32_t> len(published))


@cython.final
cdef class DeliveryFilter:
    """Which messages the subscriptions of one user get, those without a queue or those in one queue group."""

    def __init__(self, Rules allow, Rules deny, bytes queue):
        self.allow = allow
        self.deny = deny
        self.queue = queue

    cdef bint denies(self, const char *subject, uint32_t length) except -1:
        cdef uint64_t hashed = 0
        cdef Verdict *known
        cdef bint denied
        if self.deny is None:
            return False
        if self.verdicts is not None:
            known = self.verdicts.find(subject, length, &hashed)
            if known != NULL:
                return not known.passes
        denied = self.deny.match_any(subject, length, self.queue)
        if self.verdicts is not None:
            self.verdicts.keep(hashed, subject, length, not denied)
        return denied

    cdef bint delivers(self, const char *subject, uint32_t length) except -1:
        """For a message that is delivered under the subject it was published to."""
        return (self.allow is None or self.allow.match_any(subject, length, self.queue)) \
            and not self.denies(subject, length)


# -- responses --------------------------------------------------------------------------------------------------------

@cython.final
@cython.no_gc      # numbers only
cdef class Response:
    pass


@cython.final
cdef class Responses:
    """The reply subjects that one link may publish to, because it got messages that ask for it.

    It counts as nats-server does: a message that asks again with the same reply subject uses up one response.
    """

    def __init__(self, PermissionSet permissions not None):
        self.permissions = permissions
        self.awaited = {}
        self.pruned_at = monotonic()

    def __len__(self):
        return len(self.awaited)

    cdef int note(self, const char *reply, uint32_t length) except -1:
        """A message with this reply subject is delivered to the link."""
        cdef Response response
        cdef bytes subject
        cdef double now
        if self.permissions.allows_publish(reply, length):
            return 0
        subject = reply[:length]
        if self.allows(subject):
            return 0
        now = monotonic()
        response = Response()
        response.since = now
        self.awaited[subject] = response
        self.since_pruned += 1
        if self.since_pruned > NOTES_BETWEEN_PRUNES or now - self.pruned_at > SECONDS_BETWEEN_PRUNES:
            self._prune(now)
        if len(self.awaited) > MOST_AWAITED:
            del self.awaited[next(iter(self.awaited))]
        return 0

    cdef bint allows(self, bytes subject) except -1:
        """Whether the link may publish to it once more."""
        cdef Response response = self.awaited.get(subject)
        if response is None:
            return False
        response.count += 1
        if 0 < self.permissions.max_responses < response.count or self._is_over(response, monotonic()):
            del self.awaited[subject]
            return False
        return True

    cdef bint _is_over(self, Response response, double now) noexcept:
        return 0 < self.permissions.response_seconds < now - response.since

    cdef int _prune(self, double now) except -1:
        cdef Response response
        self.since_pruned = 0
        self.pruned_at = now
        for subject, response in list(self.awaited.items()):
            if 0 < self.permissions.max_responses <= response.count or self._is_over(response, now):
                del self.awaited[subject]
        return 0
