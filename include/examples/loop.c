/* A periodic loop that tardy measures:
 *
 *     cc -O2 -I include -o loop include/examples/loop.c
 *     tardy run --load none --for 10s --deadline 500us -- ./loop
 *
 * It runs at SCHED_FIFO 80 for 60,000 cycles, which take a minute. `./loop --help` lists its
 * arguments.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tardy.h"

static void work_for(int64_t nanos)
{
    int64_t end = tardy_now() + nanos;
    while (tardy_now() < end)
        ;
}

static const char usage[] =
    "usage: loop [PERIOD_US [WORK_US [CYCLES [SLOW_EVERY]]]]\n"
    "  PERIOD_US   period in microseconds (1000)\n"
    "  WORK_US     work in each cycle in microseconds (50)\n"
    "  CYCLES      cycles until it ends (60000)\n"
    "  SLOW_EVERY  every how many cycles the work takes three periods (0: never)\n";

/* Returns argument `place`, a whole number of at least `least`; `usual` if it is not given. */
static int64_t argument(int argc, char **argv, int place, int64_t usual, int64_t least)
{
    char *end;
    long long value;

    if (place >= argc)
        return usual;
    errno = 0;
    value = strtoll(argv[place], &end, 10);
    if (errno || end == argv[place] || *end || value < least || value > INT64_MAX / 1000) {
        fputs(usage, stderr);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    int64_t period = argument(argc, argv, 1, 1000, 1) * 1000;
    int64_t work = argument(argc, argv, 2, 50, 0) * 1000;
    int64_t cycles = argument(argc, argv, 3, 60000, 1);
    int64_t slow_every = argument(argc, argv, 4, 0, 0);
    struct sched_param priority = { .sched_priority = 80 };
    struct tardy_loop loop;
    struct timespec next;
    int64_t due;
    int error;

    /* Real-time programs lock their memory and run with a real-time policy. If the program lacks
     * the rights for this, tardy still measures the loop. */
    if (mlockall(MCL_CURRENT | MCL_FUTURE) || sched_setscheduler(0, SCHED_FIFO, &priority))
        fprintf(stderr, "loop: not real-time: %s\n", strerror(errno));

    error = tardy_open(&loop, "control", period);
    if (error < 0)
        fprintf(stderr, "loop: not measured: %s\n", strerror(-error));

    due = tardy_now();
    for (int64_t cycle = 1; cycle <= cycles; cycle++) {
        /* Goes to the next due time that is still in the future, so that a late cycle does not make
         * all later ones late. */
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
