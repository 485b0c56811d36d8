// A control loop as users write it, with typical faults. Arguments: cycles. my_loop (FIFO 80, 1 ms,
// CPU 1), interference (FIFO 90, 500 us every 10 ms, CPU 1), helper (FIFO 10, wakes my_worker),
// my_worker (FIFO 80).
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static volatile int over;
static int64_t start;
static int pipe_ends[2];

static void become(const char *name, int priority) {
    struct sched_param parameter = { .sched_priority = priority };
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(1, &set);
    prctl(PR_SET_NAME, name);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void sleep_until(int64_t due) {
    struct timespec time = { due / 1000000000, due % 1000000000 };
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static void *interference(void *unused) {
    become("interference", 90);
    // Uses the CPU from 200 us before the loop's due time until 300 us after it, in every tenth
    // cycle.
    for (int64_t due = start - 200000; !over; due += 10000000) {
        sleep_until(due);
        while (now() < due + 500000) { }
    }
    return unused;
}

static void *worker(void *unused) {
    char byte;
    become("my_worker", 80);
    while (read(pipe_ends[0], &byte, 1) == 1) { }
    return unused;
}

static void *helper(void *unused) {
    become("helper", 10);
    for (int64_t due = start + 500000; !over; due += 20000000) {
        sleep_until(due);
        if (write(pipe_ends[1], "x", 1) != 1) break;
    }
    close(pipe_ends[1]);
    return unused;
}

int main(int count, char **arguments) {
    int cycles = count > 1 ? atoi(arguments[1]) : 1000;
    pthread_t threads[3];
    start = now() + 10000000;
    if (pipe(pipe_ends)) return 1;
    pthread_create(&threads[0], NULL, interference, NULL);
    pthread_create(&threads[1], NULL, worker, NULL);
    pthread_create(&threads[2], NULL, helper, NULL);
    char *memory = mmap(NULL, 4096 * (size_t)cycles, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    become("my_loop", 80);
    int64_t due = start - 1000000;
    for (int cycle = 0; cycle < cycles; cycle++) {
        due += 1000000;
        sleep_until(due);
        // In every 50th cycle, touches memory that was never touched before, which causes a page
        // fault in the loop.
        if (cycle % 50 == 0) memory[4096 * (size_t)cycle] = 1;
    }
    over = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    return 0;
}
