"""Ends a process that does not react to a request to stop.

A Python signal handler runs between two Python instructions, and one of the event loop between two of its turns.
Code that never gets there (an endless loop, a disk that does not answer) would make SIGTERM useless. The handlers
here are C: the first starts an alarm and passes the signal on; if the process still exists when the alarm fires, the
second prints the Python stack of every thread and ends the process.
"""

import faulthandler
import signal

cdef extern from *:
    """
    #include <signal.h>
    #include <string.h>
    #include <unistd.h>

    static struct sigaction headrace_passed_on[NSIG];
    static volatile sig_atomic_t headrace_seconds, headrace_is_armed;
    static const char headrace_words[] =
        "[FTL] The server did not stop in time and is ended now. Above is what its threads were doing.\\n";

    static void headrace_arm(void) {
        if (!headrace_is_armed) {
            headrace_is_armed = 1;
            alarm((unsigned) headrace_seconds);
        }
    }

    static void headrace_on_stop(int number) {
        void (*next)(int) = headrace_passed_on[number].sa_handler;
        headrace_arm();
        if (next != SIG_DFL && next != SIG_IGN)
            next(number);
    }

    static void headrace_on_alarm(int number) {
        (void) number;
        if (write(2, headrace_words, sizeof headrace_words - 1)) {}
        _exit(1);
    }

    static int headrace_install(int number, void (*handler)(int), int keep) {
        struct sigaction action;
        if (sigaction(number, NULL, &action))
            return -1;
        if (keep)
            headrace_passed_on[number] = action;
        action.sa_handler = handler;
        return sigaction(number, &action, NULL);
    }

    static int headrace_watch(int number) { return headrace_install(number, headrace_on_stop, 1); }
    static int headrace_expect_alarm(int seconds) {
        headrace_seconds = seconds;
        return headrace_install(SIGALRM, headrace_on_alarm, 0);
    }
    """
    void headrace_arm()
    int headrace_watch(int number)
    int headrace_expect_alarm(int seconds)


def watch(int seconds, signals):
    """From now on, the process ends at most this many seconds after it got one of the signals.

    Call it after the usual handlers of these signals are installed: they are still called.
    """
    if headrace_expect_alarm(seconds):
        raise OSError("SIGALRM cannot be handled")
    faulthandler.register(signal.SIGALRM, file=2, all_threads=True, chain=True)
    for number in signals:
        if headrace_watch(number):
            raise OSError(f"signal {number} cannot be handled")


def start():
    """Start the countdown as if one of the signals had arrived; `watch` must have been called before."""
    headrace_arm()
