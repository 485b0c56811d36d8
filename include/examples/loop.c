/* A periodic loop that tardy measures:
 *
 *     cc -O2 -I include -o loop include/examples/loop.c
 *     tardy run --load none --for 10s --deadline 500us -- ./loop
 *
 * Arguments: period in us (1000), work in us (50), cycles (until ended), every how many cycles the work takes three periods (never).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "../tardy.h"

static void work_for(int64_t nanos)
{
    int64_t end = tardy_now() + nanos;
    while (tardy_now() < end)
        ;
}

int main(int argc, char **argv)
{
    int64_t period = (argc > 1 ? atoll(argv[1]) : 1000) * 1000;
    int64_t work = (argc > 2 ? atoll(argv[2]) : 50) * 1000;
    int64_t cycles = argc > 3 ? atoll(argv[3]) : -1;
    int64_t slow_every = argc > 4 ? atoll(argv[4]) : 0;
    struct sched_param priority = { .sched_priority = 80 };
    struct tardy_loop loop;
    struct timespec next;
    int64_t due;
    int error;

    /* As a real-time program does; it is measured without these rights, too. */
    if (mlockall(MCL_CURRENT | MCL_FUTURE) || sched_setscheduler(0, SCHED_FIFO, &priority))
        fprintf(stderr, "loop: not real-time: %s\n", strerror(errno));

    error = tardy_open(&loop, "control", period);
    if (error < 0)
        fprintf(stderr, "loop: not measured: %s\n", strerror(-error));

    due = tardy_now();
    for (int64_t cycle = 1; cycles < 0 || cycle <= cycles; cycle++) {
        /* The next due time that has not passed: lateness must not add up. */
        do
            due += period;
        while (due <= tardy_now());
        next.tv_sec = due / 1000000000;
        next.tv_nsec = due % 1000000000;
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR)
            ;
        tardy_due(&loop, due);
        work_for(slow_every && cycle % slow_every == 0 ? 3 * period : work);
        tardy_done(&loop);
    }
    tardy_close(&loop);
    return 0;
}
