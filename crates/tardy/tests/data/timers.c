/*
 * A program with timers, for tests of `tardy attach`. It records its due times and when it woke up.
 *
 *     timers KIND CYCLES PERIOD_US
 *
 * KIND: monotonic, realtime, tai (clock_nanosleep until a time), timerfd, posix-timer, itimer, woken (a wait with a time limit, which another thread ends
 * earlier), busy (a timer that expires while no thread waits for it). It starts when it reads a line from standard input. After the last cycle, it writes
 * a line `DUE WOKE` per cycle to standard output, in ns: DUE on the timer's clock, WOKE on the monotonic clock. It ends when standard input is closed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int64_t now(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static struct timespec at(int64_t nanos)
{
    return (struct timespec){ .tv_sec = nanos / 1000000000, .tv_nsec = nanos % 1000000000 };
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static sem_t asked, answered;

/* Ends each wait of the main thread, long before its time limit, but late enough for the wait to
 * start. This thread uses no timer. */
static void *waker(void *unused)
{
    (void)unused;
    for (;;) {
        sem_wait(&asked);
        int64_t begin = now(CLOCK_MONOTONIC);
        while (now(CLOCK_MONOTONIC) < begin + 100000)
            ;
        sem_post(&answered);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const char *kind = argv[1];
    int cycles = atoi(argv[2]);
    int64_t period = atoll(argv[3]) * 1000;
    int64_t *dues = calloc(cycles, sizeof(*dues)), *wokes = calloc(cycles, sizeof(*wokes));
    clockid_t clock = !strcmp(kind, "realtime") ? CLOCK_REALTIME : !strcmp(kind, "tai") ? CLOCK_TAI : CLOCK_MONOTONIC;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    timer_t timer;
    sigset_t signals;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
    pthread_t thread;

    sigemptyset(&signals);
    sigaddset(&signals, SIGALRM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if (fd < 0 || timer_create(CLOCK_MONOTONIC, &event, &timer))
        fail("timers");
    sem_init(&asked, 0, 0);
    sem_init(&answered, 0, 0);
    if (!strcmp(kind, "woken") && pthread_create(&thread, NULL, waker, NULL))
        fail("thread");
    if (getchar() == EOF)
        return 0;

    int64_t due = now(clock);
    for (int cycle = 0; cycle < cycles; cycle++) {
        due += period;
        if (due < now(clock) + period / 2)
            due = now(clock) + period;
        struct timespec time = at(due);
        struct itimerspec set = { .it_value = time };
        int caught;

        if (!strcmp(kind, "timerfd")) {
            uint64_t count;
            if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &set, NULL) || read(fd, &count, sizeof(count)) != sizeof(count))
                fail(kind);
        } else if (!strcmp(kind, "posix-timer")) {
            if (timer_settime(timer, TIMER_ABSTIME, &set, NULL) || sigwait(&signals, &caught))
                fail(kind);
        } else if (!strcmp(kind, "itimer")) {
            struct itimerval wait = { .it_value = { .tv_usec = period / 1000 } };
            if (setitimer(ITIMER_REAL, &wait, NULL) || sigwait(&signals, &caught))
                fail(kind);
        } else if (!strcmp(kind, "woken")) {
            struct timespec limit = at(now(CLOCK_REALTIME) + 100000000000LL);
            sem_post(&asked);
            while (sem_timedwait(&answered, &limit))
                if (errno != EINTR)
                    fail(kind);
        } else if (!strcmp(kind, "busy")) {
            uint64_t count;
            if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &set, NULL))
                fail(kind);
            while (now(clock) < due + 20000)
                ;
            if (read(fd, &count, sizeof(count)) != sizeof(count))
                fail(kind);
        } else if (clock_nanosleep(clock, TIMER_ABSTIME, &time, NULL)) {
            fail(kind);
        }
        wokes[cycle] = now(CLOCK_MONOTONIC);
        dues[cycle] = due;
    }
    for (int cycle = 0; cycle < cycles; cycle++)
        printf("%lld %lld\n", (long long)dues[cycle], (long long)wokes[cycle]);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
