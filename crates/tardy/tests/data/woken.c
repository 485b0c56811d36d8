/*
 * Threads that are woken in five ways, for tests of `tardy attach` in guests of the lab, which have one CPU.
 *
 *     woken COUNT CONTEXT...
 *
 * The threads timer, futex, pipe, epoll and signal each wait in their own way, and time their wake-ups themselves. For each context of the module
 * tardy_inject, each thread has 2 x COUNT wake-ups; the first, the third, and so on, are delayed. For the thread timer, the thread `injector`, which
 * has a lower priority, starts the module's delay shortly before the due time. The other threads are woken by the thread `waker`, which has a higher
 * priority; for a delay, `waker` then starts the module's delay. With the context `none`, no wake-up is delayed, and `waker` has a lower priority than
 * the threads.
 *
 * The program starts when it reads a line from standard input. At the end, it writes a line `WAY CONTEXT IS_DELAYED REFERENCE END` for each wake-up
 * to standard output. REFERENCE is the due time, or the clock before the call that wakes the thread. END is the clock when the thread runs again.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 16000000
#define DELAY_NS 4000000
/* Time from the start of the injector's delay to the due time. */
#define LEAD_NS 500000

enum way { TIMER, FUTEX, PIPE, EPOLL, SIGNAL, WAYS };

struct wake_up {
    int64_t reference;
    int64_t end;
};

static const char *names[WAYS] = { "timer", "futex", "pipe", "epoll", "signal" };
static char **contexts;
static int context_count, round_count;
static struct wake_up *wake_ups[WAYS];
static int64_t start;
static sem_t go[WAYS + 2], futex;
static int pipe_ends[2], event, poll, fire_file = -1;
static volatile int signalled;
static sigset_t signals;

static void check(int is_right, const char *what)
{
    if (!is_right) {
        perror(what);
        exit(1);
    }
}

static int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void sleep_until(int64_t time)
{
    struct timespec until = { .tv_sec = time / 1000000000, .tv_nsec = time % 1000000000 };

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static int64_t due(enum way way, int context, int round)
{
    return start + ((way * context_count + context) * round_count + round) * (int64_t)PERIOD_NS;
}

static int is_delayed(int context, int round)
{
    return round % 2 == 0 && strcmp(contexts[context], "none");
}

static void fire(int context)
{
    char text[64];
    int length = snprintf(text, sizeof(text), "%s %d", contexts[context], DELAY_NS);

    check(write(fire_file, text, length) == length, "fire");
}

static void begin(const char *name, int priority)
{
    struct sched_param param = { .sched_priority = priority };

    prctl(PR_SET_NAME, name);
    check(!pthread_setschedparam(pthread_self(), SCHED_FIFO, &param), "priority");
}

static void await(enum way way)
{
    struct epoll_event found;
    char byte;
    int caught;

    switch (way) {
    case FUTEX:
        while (sem_wait(&futex))
            ;
        break;
    case PIPE:
        check(read(pipe_ends[0], &byte, 1) == 1, "read");
        break;
    case EPOLL:
        check(epoll_wait(poll, &found, 1, -1) == 1, "epoll_wait");
        break;
    default:
        check(!sigwait(&signals, &caught), "sigwait");
    }
}

static void wake(enum way way)
{
    uint64_t one = 1;

    switch (way) {
    case FUTEX:
        sem_post(&futex);
        break;
    case PIPE:
        check(write(pipe_ends[1], "x", 1) == 1, "write");
        break;
    case EPOLL:
        check(write(event, &one, sizeof(one)) == sizeof(one), "write");
        break;
    default:
        check(!tgkill(getpid(), signalled, SIGUSR1), "signal");
    }
}

static void *woken(void *number)
{
    enum way way = (intptr_t)number;
    uint64_t count;

    begin(names[way], 50);
    if (way == SIGNAL)
        signalled = gettid();
    while (sem_wait(&go[way]))
        ;
    for (int context = 0; context < context_count; context++)
        for (int round = 0; round < round_count; round++) {
            struct wake_up *wake_up = &wake_ups[way][context * round_count + round];

            if (way == TIMER) {
                wake_up->reference = due(way, context, round);
                sleep_until(wake_up->reference);
            } else {
                await(way);
            }
            wake_up->end = now();
            if (way == EPOLL)
                check(read(event, &count, sizeof(count)) == sizeof(count), "eventfd");
        }
    return NULL;
}

static void *inject(void *unused)
{
    begin("injector", 10);
    while (sem_wait(&go[WAYS]))
        ;
    for (int context = 0; context < context_count; context++)
        for (int round = 0; round < round_count; round++)
            if (is_delayed(context, round)) {
                sleep_until(due(TIMER, context, round) - LEAD_NS);
                fire(context);
            }
    return unused;
}

static void *wake_all(void *unused)
{
    begin("waker", strcmp(contexts[0], "none") ? 60 : 40);
    while (sem_wait(&go[WAYS + 1]))
        ;
    for (int way = FUTEX; way < WAYS; way++)
        for (int context = 0; context < context_count; context++)
            for (int round = 0; round < round_count; round++) {
                sleep_until(due(way, context, round));
                wake_ups[way][context * round_count + round].reference = now();
                wake(way);
                if (is_delayed(context, round))
                    fire(context);
            }
    return unused;
}

int main(int argc, char **argv)
{
    struct epoll_event wanted = { .events = EPOLLIN };
    pthread_t threads[WAYS + 2];

    if (argc < 3)
        return 2;
    round_count = 2 * atoi(argv[1]);
    contexts = argv + 2;
    context_count = argc - 2;
    if (strcmp(contexts[0], "none"))
        check((fire_file = open("/sys/kernel/debug/tardy_inject/fire", O_WRONLY)) >= 0, "tardy_inject");
    event = eventfd(0, 0);
    poll = epoll_create1(0);
    check(!pipe(pipe_ends) && event >= 0 && !epoll_ctl(poll, EPOLL_CTL_ADD, event, &wanted), "files");
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    sem_init(&futex, 0, 0);
    for (int thread = 0; thread < WAYS + 2; thread++)
        sem_init(&go[thread], 0, 0);
    check(!mlockall(MCL_CURRENT | MCL_FUTURE), "mlockall");
    for (intptr_t way = 0; way < WAYS; way++) {
        wake_ups[way] = calloc(context_count * round_count, sizeof(struct wake_up));
        check(!pthread_create(&threads[way], NULL, woken, (void *)way), "thread");
    }
    check(!pthread_create(&threads[WAYS], NULL, inject, NULL), "thread");
    check(!pthread_create(&threads[WAYS + 1], NULL, wake_all, NULL), "thread");
    if (getchar() == EOF)
        return 0;
    start = now() + 2 * PERIOD_NS;
    for (int thread = 0; thread < WAYS + 2; thread++)
        sem_post(&go[thread]);
    for (int thread = 0; thread < WAYS + 2; thread++)
        pthread_join(threads[thread], NULL);
    for (int way = 0; way < WAYS; way++)
        for (int index = 0; index < context_count * round_count; index++) {
            struct wake_up *wake_up = &wake_ups[way][index];
            int context = index / round_count;

            printf("%s %s %d %lld %lld\n", names[way], contexts[context], is_delayed(context, index % round_count),
                   (long long)wake_up->reference, (long long)wake_up->end);
        }
    return 0;
}
