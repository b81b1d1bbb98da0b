# What a peer may publish and subscribe to. The theory is at the top of permissions.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.basics.filters cimport Filter

cdef struct Verdict:
    uint64_t hash
    uint32_t length
    bint passes
    char text[1]                   # the subject; the rest of it follows

cdef class Verdicts:
    cdef Verdict **slots           # direct-mapped; NULL until there is a first verdict
    cdef Verdict *latest
    cdef uint64_t seed

    cdef Verdict *find(self, const char *subject, uint32_t length, uint64_t *hashed) noexcept
    cdef void keep(self, uint64_t hashed, const char *subject, uint32_t length, bint passes) noexcept


cdef class Rules:
    cdef Filter plain              # rules without a queue; None: there are none
    cdef list queues               # (Filter of one subject, name of a queue)

    cdef bint match_any(self, const char *subject, uint32_t length, bytes queue) except -1


cdef class PermissionSet:
    cdef object __weakref__
    cdef readonly bint limits_publishing
    cdef readonly long long max_responses      # to each message; 0: none, negative: any number
    cdef readonly double response_seconds      # after the message; not positive: forever
    cdef Filter publish_allow
    cdef Filter publish_deny
    cdef bint publishes_nothing                # nothing is allowed, except for responses
    cdef Rules subscribe_allow                 # None: everything is allowed
    cdef Rules subscribe_deny                  # None: nothing is denied
    cdef Verdicts publish_verdicts
    cdef dict delivery_filters                 # by queue

    cdef bint allows_publish(self, const char *subject, uint32_t length) except -1
    cdef DeliveryFilter filter_of(self, bytes subject, bytes queue)


cdef class DeliveryFilter:
    cdef Rules allow               # None: everything is allowed
    cdef Rules deny                # None: nothing is denied
    cdef bytes queue
    cdef Verdicts verdicts         # None: they are computed each time

    cdef bint denies(self, const char *subject, uint32_t length) except -1
    cdef bint delivers(self, const char *subject, uint32_t length) except -1


cdef class Response:
    cdef double since
    cdef long long count


cdef class Responses:
    cdef PermissionSet permissions
    cdef dict awaited              # reply subject -> Response
    cdef uint64_t since_pruned
    cdef double pruned_at

    cdef int note(self, const char *reply, uint32_t length) except -1
    cdef bint allows(self, bytes subject) except -1
    cdef int _prune(self, double now) except -1
    cdef bint _is_over(self, Response response, double now) noexcept
