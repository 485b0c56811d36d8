/*
 * A loop that runs at the same time as a flood of page faults, for tests of `tardy attach`: the
 * flood fills the buffer of explanations, but not the buffer of wake-ups.
 *
 *     flood CYCLES PERIOD_US PAGES
 *
 * It starts when it reads a line from standard input. When the flood is over, it writes "over", makes CYCLES more cycles, and ends.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096
#define AT_ONCE 4096

static volatile int is_over;
static sem_t asked;

static void *flood(void *argument)
{
    sem_wait(&asked);
    for (long left = (long)(intptr_t)argument; left > 0; left -= AT_ONCE) {
        char *memory = mmap(NULL, AT_ONCE * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (memory == MAP_FAILED)
            exit(1);
        madvise(memory, AT_ONCE * PAGE, MADV_NOHUGEPAGE);
        for (long page = 0; page < AT_ONCE; page++)
            memory[page * PAGE] = 1;
        munmap(memory, AT_ONCE * PAGE);
    }
    is_over = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    char line[16];
    pthread_t thread;
    struct timespec next;
    long cycles, made;

    if (argc != 4)
        return 2;
    cycles = atol(argv[1]);
    /* The thread is started before the line is read, so that `tardy attach` follows it. */
    if (sem_init(&asked, 0, 0) || pthread_create(&thread, NULL, flood, (void *)(intptr_t)atol(argv[3])) || !fgets(line, sizeof(line), stdin))
        return 1;
    sem_post(&asked);
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (made = 0; !is_over || made < cycles; made++) {
        next.tv_nsec += atol(argv[2]) * 1000;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        if (is_over == 1) {
            is_over = 2;
            made = 0;
            puts("over");
            fflush(stdout);
        }
    }
    pthread_join(thread, NULL);
    return 0;
}
