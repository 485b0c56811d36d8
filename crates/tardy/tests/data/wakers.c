/*
 * A thread that another thread wakes, for tests of the kinds of wake-ups of `tardy attach`. It is only woken when it sleeps.
 *
 *     wakers ROUNDS
 *
 * The thread `waiter` waits ROUNDS times in each of these: read (of a pipe), futex (a condition variable), epoll_wait (an eventfd), recvfrom (a socket),
 * rt_sigtimedwait (a signal). The program starts when it reads a line from standard input. At the end, it writes a line `CALL SLEEPS` for each call to
 * standard output: SLEEPS is the kernel's count of the thread's voluntary context switches. It ends when its standard input is closed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum way { PIPE, CONDITION, EVENTFD, SOCKET, SIGNAL, WAYS };

static const char *calls[WAYS] = { "read", "futex", "epoll_wait", "recvfrom", "rt_sigtimedwait" };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sem_t go;
static int is_set, pipe_ends[2], event, poll, sockets[2], rounds;
static volatile int waiter;
static long slept_in[WAYS];
static sigset_t signals;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void check(int is_right, const char *what)
{
    if (!is_right)
        fail(what);
}

static void await(enum way way)
{
    struct epoll_event found;
    uint64_t count;
    char byte;
    int caught;

    switch (way) {
    case PIPE:
        check(read(pipe_ends[0], &byte, 1) == 1, "read");
        break;
    case CONDITION:
        pthread_mutex_lock(&lock);
        while (!is_set)
            pthread_cond_wait(&changed, &lock);
        is_set = 0;
        pthread_mutex_unlock(&lock);
        break;
    case EVENTFD:
        check(epoll_wait(poll, &found, 1, -1) == 1, "epoll_wait");
        check(read(event, &count, sizeof(count)) == sizeof(count), "eventfd");
        break;
    case SOCKET:
        check(recv(sockets[0], &byte, 1, 0) == 1, "recv");
        break;
    default:
        check(!sigwait(&signals, &caught), "sigwait");
    }
}

static void wake(enum way way)
{
    uint64_t one = 1;

    switch (way) {
    case PIPE:
        check(write(pipe_ends[1], "x", 1) == 1, "write");
        break;
    case CONDITION:
        pthread_mutex_lock(&lock);
        is_set = 1;
        pthread_mutex_unlock(&lock);
        /* Signals without holding the lock, because the thread takes the lock when it wakes up. */
        pthread_cond_signal(&changed);
        break;
    case EVENTFD:
        check(write(event, &one, sizeof(one)) == sizeof(one), "write");
        break;
    case SOCKET:
        check(send(sockets[1], "x", 1, 0) == 1, "send");
        break;
    default:
        /* pthread_kill takes a lock, and the waiter would wait for this lock when it ends. */
        check(!tgkill(getpid(), waiter, SIGUSR1), "signal");
    }
}

static long own_sleeps(void)
{
    struct rusage usage;

    check(!getrusage(RUSAGE_THREAD, &usage), "getrusage");
    return usage.ru_nvcsw;
}

static void *wait_for_all(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "waiter");
    waiter = gettid();
    while (sem_wait(&go))
        ;
    for (int way = 0; way < WAYS; way++) {
        long before = own_sleeps();

        for (int round = 0; round < rounds; round++)
            await(way);
        slept_in[way] = own_sleeps() - before;
    }
    return NULL;
}

/* The number of the waiter's voluntary context switches; -1 if it does not sleep now. */
static long long sleeps(void)
{
    char path[64], line[128], state = '?';
    long long count = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/status", waiter);
    file = fopen(path, "r");
    if (!file)
        fail(path);
    while (fgets(line, sizeof(line), file)) {
        sscanf(line, "State: %c", &state);
        sscanf(line, "voluntary_ctxt_switches: %lld", &count);
    }
    fclose(file);
    return state == 'S' ? count : -1;
}

static void nap(void)
{
    struct timespec time = { .tv_nsec = 200000 };

    nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    rounds = atoi(argv[1]);
    struct epoll_event wanted = { .events = EPOLLIN };
    pthread_t thread;
    long long slept, now;

    event = eventfd(0, 0);
    poll = epoll_create1(0);
    if (pipe(pipe_ends) || event < 0 || poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, event, &wanted) ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        fail("files");
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    sem_init(&go, 0, 0);
    if (pthread_create(&thread, NULL, wait_for_all, NULL))
        fail("thread");
    while (!waiter || sleeps() < 0)
        nap();
    if (getchar() == EOF)
        return 0;
    slept = sleeps();
    sem_post(&go);
    for (int way = 0; way < WAYS; way++)
        for (int round = 0; round < rounds; round++) {
            while ((now = sleeps()) <= slept)
                nap();
            slept = now;
            wake(way);
        }
    pthread_join(thread, NULL);
    for (int way = 0; way < WAYS; way++)
        printf("%s %ld\n", calls[way], slept_in[way]);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
