/*
 * A real-time loop for tests of `tardy run --explain -- PROGRAM`. It breaks each rule for real-time
 * loops that a program can break on purpose.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "tardy.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static int asks, answers;

/* This thread wakes the loop, and has a lower priority than the loop. */
static void *answer(void *unused)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        while (answers == asks)
            pthread_cond_wait(&asked, &lock);
        answers = asks;
        pthread_cond_signal(&answered);
    }
    return unused;
}

static void *nothing(void *unused)
{
    return unused;
}

int main(void)
{
    struct sched_param priority = { .sched_priority = 80 }, ordinary = { .sched_priority = 0 };
    struct timespec time = { 0, 1000000 };
    struct tardy_loop loop;
    pthread_attr_t of_thread;
    pthread_t thread;

    pthread_attr_init(&of_thread);
    pthread_attr_setdetachstate(&of_thread, PTHREAD_CREATE_DETACHED);
    pthread_attr_setinheritsched(&of_thread, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&of_thread, SCHED_OTHER);
    pthread_attr_setschedparam(&of_thread, &ordinary);
    if (pthread_create(&thread, NULL, answer, NULL) || sched_setscheduler(0, SCHED_FIFO, &priority))
        return 1;
    if (tardy_open(&loop, "bad", 0) < 0)
        fprintf(stderr, "bad_loop: not measured\n");
    for (;;) {
        volatile char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int64_t due;

        page[0] = 1;
        munmap((void *)page, 4096);
        pthread_create(&thread, &of_thread, nothing, NULL);
        pthread_mutex_lock(&lock);
        asks++;
        pthread_cond_signal(&asked);
        while (answers != asks)
            pthread_cond_wait(&answered, &lock);
        pthread_mutex_unlock(&lock);
        clock_gettime(CLOCK_REALTIME, &time);
        time.tv_nsec += 1000000;
        if (time.tv_nsec >= 1000000000) {
            time.tv_nsec -= 1000000000;
            time.tv_sec++;
        }
        clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, NULL);
        time.tv_sec = 0;
        time.tv_nsec = 1000000;
        due = tardy_now() + time.tv_nsec;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
        tardy_due(&loop, due);
        tardy_done(&loop);
    }
}
