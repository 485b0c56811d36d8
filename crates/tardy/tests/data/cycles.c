/*
 * A periodic loop that sometimes blocks in a call, for tests of the cycles of `tardy attach`. It times these calls itself.
 *
 *     cycles KIND CYCLES PERIOD_US
 *
 * KIND: lock (a mutex that a thread of lower priority holds), fsync (of 256 pages), fsync-small (of 16 pages), fault (a page of a file that was
 * dropped from memory), pipe (a full one).
 * It starts when it reads a line from standard input. After the last cycle, it writes a line `BEFORE AFTER CPU` for each blocking call to standard
 * output: the monotonic clock before and after the call, and the thread's CPU time between the two, in ns. It ends when its standard input is closed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define EVERY 20
#define HELD_NS 3000000
#define FILE_BYTES (8 << 20)
#define PAGE 4096

static sem_t go, held;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];
static char buffer[1 << 20];

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

/* Without the right to a real-time priority, the threads keep their policy. */
static void set_priority(int priority)
{
    struct sched_param param = { .sched_priority = priority };

    pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
}

static void wait_ns(int64_t nanos)
{
    struct timespec time = at(nanos);

    nanosleep(&time, NULL);
}

static void *hold(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "holder");
    set_priority(10);
    for (;;) {
        sem_wait(&go);
        pthread_mutex_lock(&lock);
        sem_post(&held);
        wait_ns(HELD_NS);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *drain(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "drainer");
    set_priority(10);
    for (;;) {
        sem_wait(&go);
        wait_ns(HELD_NS);
        if (read(ends[0], buffer, sizeof(buffer)) < 0)
            fail("read");
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const char *kind = argv[1];
    int cycles = atoi(argv[2]), calls = 0;
    int64_t period = atoll(argv[3]) * 1000;
    int is_fsync = !strncmp(kind, "fsync", 5);
    ssize_t written = strcmp(kind, "fsync-small") ? sizeof(buffer) : 16 * PAGE;
    int64_t(*stamps)[3] = calloc(cycles, sizeof(*stamps));
    pthread_t thread;
    int file = open("blocks", O_RDWR | O_CREAT | O_TRUNC, 0600);
    volatile char *map;

    sem_init(&go, 0, 0);
    sem_init(&held, 0, 0);
    for (int byte = 0; byte < FILE_BYTES; byte += sizeof(buffer))
        if (write(file, buffer, sizeof(buffer)) != sizeof(buffer))
            fail("file");
    if (pipe(ends) || fsync(file))
        fail("pipe");
    map = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    madvise((void *)map, FILE_BYTES, MADV_RANDOM);
    if (!strcmp(kind, "lock") && pthread_create(&thread, NULL, hold, NULL))
        fail("thread");
    if (!strcmp(kind, "pipe") && pthread_create(&thread, NULL, drain, NULL))
        fail("thread");
    if (getchar() == EOF)
        return 0;
    set_priority(20);

    int64_t due = now(CLOCK_MONOTONIC);
    for (int cycle = 0; cycle < cycles; cycle++) {
        int64_t before, cpu;

        due += period;
        if (due < now(CLOCK_MONOTONIC) + period / 2)
            due = now(CLOCK_MONOTONIC) + period;
        struct timespec time = at(due);
        if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL))
            fail("sleep");
        if (cycle % EVERY != EVERY / 2)
            continue;
        if (!strcmp(kind, "lock")) {
            sem_post(&go);
            sem_wait(&held);
        } else if (is_fsync) {
            if (pwrite(file, buffer, written, 0) != written)
                fail("write");
        } else if (!strcmp(kind, "fault")) {
            madvise((void *)map, FILE_BYTES, MADV_DONTNEED);
            posix_fadvise(file, 0, FILE_BYTES, POSIX_FADV_DONTNEED);
        } else {
            fcntl(ends[1], F_SETFL, O_NONBLOCK);
            while (write(ends[1], buffer, PAGE) > 0)
                ;
            fcntl(ends[1], F_SETFL, 0);
            sem_post(&go);
        }
        before = now(CLOCK_MONOTONIC);
        cpu = now(CLOCK_THREAD_CPUTIME_ID);
        if (!strcmp(kind, "lock")) {
            pthread_mutex_lock(&lock);
        } else if (is_fsync) {
            fsync(file);
        } else if (!strcmp(kind, "fault")) {
            (void)map[(cycle * 37 % (FILE_BYTES / PAGE)) * PAGE];
        } else if (write(ends[1], buffer, PAGE) != PAGE) {
            fail("write");
        }
        stamps[calls][2] = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
        stamps[calls][1] = now(CLOCK_MONOTONIC);
        stamps[calls++][0] = before;
        if (!strcmp(kind, "lock"))
            pthread_mutex_unlock(&lock);
    }
    for (int call = 0; call < calls; call++)
        printf("%lld %lld %lld\n", (long long)stamps[call][0], (long long)stamps[call][1], (long long)stamps[call][2]);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
