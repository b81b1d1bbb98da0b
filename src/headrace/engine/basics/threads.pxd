# Threads of C, as the flush threads and the committer use them: they never hold the GIL, and no signal arrives in them.

from headrace.engine.basics.system cimport timespec

cdef extern from "pthread.h" nogil:
    ctypedef unsigned long pthread_t
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef struct pthread_condattr_t:
        pass
    int pthread_create(pthread_t *thread, const void *attributes, void *(*start)(void *) noexcept nogil, void *argument)
    int pthread_join(pthread_t thread, void **result)
    int pthread_setname_np(pthread_t thread, const char *name)
    int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes)
    int pthread_mutex_destroy(pthread_mutex_t *mutex)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)
    int pthread_condattr_init(pthread_condattr_t *attributes)
    int pthread_condattr_setclock(pthread_condattr_t *attributes, int clock)
    int pthread_condattr_destroy(pthread_condattr_t *attributes)
    int pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
    int pthread_cond_destroy(pthread_cond_t *condition)
    int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
    int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const timespec *until)
    int pthread_cond_signal(pthread_cond_t *condition)
    int pthread_cond_broadcast(pthread_cond_t *condition)

cdef extern from "signal.h" nogil:
    ctypedef struct sigset_t:
        pass
    enum: SIG_SETMASK
    int sigfillset(sigset_t *signals)
    int pthread_sigmask(int how, const sigset_t *signals, sigset_t *old)


cdef inline void block_signals(sigset_t *before) noexcept nogil:
    """Threads that are started from now on get no signals: those are the main thread's business."""
    cdef sigset_t every
    sigfillset(&every)
    pthread_sigmask(SIG_SETMASK, &every, before)


cdef inline void restore_signals(const sigset_t *before) noexcept nogil:
    pthread_sigmask(SIG_SETMASK, before, NULL)
