/*
 * Three threads that wake one another, for tests of the chains of `tardy attach`: a timer wakes recv, which wakes control, which wakes motor.
 *
 *     chain LINK CYCLES PERIOD_US
 *
 * Every 20th cycle has a delay of 3 ms in one link. LINK is the thread that is delayed: recv
 * computes for 3 ms; control sleeps; motor waits for the CPU, which the thread hog of higher
 * priority occupies. All threads run on CPU 0. The program starts its cycles when it reads a line
 * from standard input, and ends after the last cycle.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define EVERY 20
#define DELAY_NS 3000000

static sem_t to_control, to_motor, to_hog;
static const char *late;
static int cycles;

static int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void spin(void)
{
    int64_t end = now() + DELAY_NS;

    while (now() < end)
        ;
}

static int is_late(const char *link, int cycle)
{
    return cycle % EVERY == EVERY / 2 && !strcmp(link, late);
}

static void begin(const char *name, int priority)
{
    struct sched_param param = { .sched_priority = priority };
    cpu_set_t set;

    prctl(PR_SET_NAME, name);
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void *control(void *unused)
{
    struct timespec delay = { .tv_nsec = DELAY_NS };

    begin("control", 22);
    for (int cycle = 0; cycle < cycles; cycle++) {
        sem_wait(&to_control);
        if (is_late("control", cycle))
            nanosleep(&delay, NULL);
        sem_post(&to_motor);
        if (is_late("motor", cycle))
            sem_post(&to_hog);
    }
    return unused;
}

static void *motor(void *unused)
{
    begin("motor", 21);
    for (int cycle = 0; cycle < cycles; cycle++)
        sem_wait(&to_motor);
    return unused;
}

/* Runs as soon as control sleeps, and before motor, because its priority is higher than motor's. */
static void *hog(void *unused)
{
    begin("hog", 22);
    for (;;) {
        sem_wait(&to_hog);
        spin();
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[3];

    if (argc != 4)
        return 2;
    late = argv[1];
    cycles = atoi(argv[2]);
    int64_t period = atoll(argv[3]) * 1000;
    sem_init(&to_control, 0, 0);
    sem_init(&to_motor, 0, 0);
    sem_init(&to_hog, 0, 0);
    if (pthread_create(&threads[0], NULL, control, NULL) || pthread_create(&threads[1], NULL, motor, NULL) || pthread_create(&threads[2], NULL, hog, NULL))
        return 1;
    if (getchar() == EOF)
        return 0;
    begin("recv", 20);
    int64_t due = now();
    for (int cycle = 0; cycle < cycles; cycle++) {
        due += period;
        struct timespec time = { .tv_sec = due / 1000000000, .tv_nsec = due % 1000000000 };
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
        if (is_late("recv", cycle))
            spin();
        sem_post(&to_control);
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
