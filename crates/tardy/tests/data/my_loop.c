/*
 * A program for tests of `tardy lab app`: a periodic loop that needs a library and a file.
 *
 *     my_loop FILE CYCLES
 *
 * It prints the first line of FILE and the sum of its library, then wakes up every 5 ms with real-time priority. After CYCLES cycles (0: never)
 * it exits with 7; SIGTERM ends it with 5. With -DCALLS, it makes the two calls of include/tardy.h.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#ifdef CALLS
#include "tardy.h"
#endif

#define PERIOD_NS 5000000

int sum(int, int);

static volatile sig_atomic_t is_over;

static void end(int signal)
{
    (void)signal;
    is_over = 1;
}

int main(int arguments, char **values)
{
    struct sched_param param = { .sched_priority = 80 };
    struct timespec next;
    char line[64];
    FILE *file = arguments > 2 ? fopen(values[1], "r") : NULL;

    if (!file || !fgets(line, sizeof line, file)) {
        perror("my_loop");
        return 9;
    }
    printf("%s: %s and %d\n", values[0], line, sum(40, 2));
    fprintf(stderr, "begins\n");
    fflush(stdout);
    signal(SIGTERM, end);
    mlockall(MCL_CURRENT | MCL_FUTURE);
    sched_setscheduler(0, SCHED_FIFO, &param);
    clock_gettime(CLOCK_MONOTONIC, &next);
#ifdef CALLS
    struct tardy_loop loop;
    tardy_open(&loop, "control", PERIOD_NS);
#endif
    for (long cycle = 1; !is_over; cycle++) {
        next.tv_nsec += PERIOD_NS;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
#ifdef CALLS
        tardy_due(&loop, tardy_nanos(&next));
        tardy_done(&loop);
#endif
        if (cycle == atol(values[2]))
            return 7;
    }
#ifdef CALLS
    tardy_close(&loop);
#endif
    return 5;
}
