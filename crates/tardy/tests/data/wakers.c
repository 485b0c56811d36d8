/*
 * A thread that another thread wakes, for tests of the kinds of wake-ups of `tardy attach`. The
 * other thread waits until this thread sleeps, and then wakes it.
 *
 *     wakers ROUNDS
 *
 * The thread `waiter` waits ROUNDS times in each of these: read (of a pipe), futex (a condition variable), epoll_wait (an eventfd), recvfrom (a socket),
 * rt_sigtimedwait (a signal), mq_timedreceive (a message queue), io_uring_enter (a read of a second pipe). The program starts when it reads a line from
 * standard input. At the end, it writes a line `CALL SLEEPS` for each call to standard output: SLEEPS is the kernel's count of the thread's voluntary
 * context switches. It ends when its standard input is closed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <pthread.h>
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum way { PIPE, CONDITION, EVENTFD, SOCKET, SIGNAL, QUEUE, URING, WAYS };

static const char *calls[WAYS] = { "read", "futex", "epoll_wait", "recvfrom", "rt_sigtimedwait", "mq_timedreceive", "io_uring_enter" };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sem_t go;
static int is_set, pipe_ends[2], event, poll, sockets[2], rounds;
static volatile int waiter;
static long slept_in[WAYS];
static sigset_t signals;
static mqd_t queue;
static int ring, ring_pipe[2];
static struct io_uring_sqe *entries;
static uint32_t *sent, *sent_mask, *sent_slots, *taken;

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

static void make_ring(void)
{
    struct io_uring_params params = { 0 };
    int flags = MAP_SHARED | MAP_POPULATE;
    char *map;

    ring = syscall(SYS_io_uring_setup, 2, &params);
    check(ring >= 0 && params.features & IORING_FEAT_SINGLE_MMAP, "io_uring_setup");
    map = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE, flags, ring, IORING_OFF_SQ_RING);
    entries = mmap(NULL, params.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, flags, ring, IORING_OFF_SQES);
    check(map != MAP_FAILED && entries != MAP_FAILED, "io_uring");
    sent = (uint32_t *)(map + params.sq_off.tail);
    sent_mask = (uint32_t *)(map + params.sq_off.ring_mask);
    sent_slots = (uint32_t *)(map + params.sq_off.array);
    taken = (uint32_t *)(map + params.cq_off.head);
}

/* Reads a byte of the second pipe, and waits for the end of this operation. */
static void read_through_ring(char *byte)
{
    uint32_t slot = *sent & *sent_mask;

    memset(&entries[slot], 0, sizeof(entries[slot]));
    entries[slot].opcode = IORING_OP_READ;
    entries[slot].fd = ring_pipe[0];
    entries[slot].addr = (uintptr_t)byte;
    entries[slot].len = 1;
    sent_slots[slot] = slot;
    __atomic_store_n(sent, *sent + 1, __ATOMIC_RELEASE);
    check(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1, "io_uring_enter");
    __atomic_store_n(taken, *taken + 1, __ATOMIC_RELEASE);
}

static void await(enum way way)
{
    struct epoll_event found;
    uint64_t count;
    char byte, message[8];
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
    case QUEUE:
        check(mq_receive(queue, message, sizeof(message), NULL) == 1, "mq_receive");
        break;
    case URING:
        read_through_ring(&byte);
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
    case QUEUE:
        check(!mq_send(queue, "x", 1, 0), "mq_send");
        break;
    case URING:
        check(write(ring_pipe[1], "x", 1) == 1, "write");
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
    struct mq_attr attributes = { .mq_maxmsg = 2, .mq_msgsize = 8 };
    char name[32];

    snprintf(name, sizeof(name), "/tardy-wakers-%d", getpid());
    queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    check(queue != (mqd_t)-1 && !mq_unlink(name) && !pipe(ring_pipe), "mq_open");
    make_ring();
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
