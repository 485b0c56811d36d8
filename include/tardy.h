/* tardy.h: lets `tardy` measure your own loop with the same care as its own probes.
 *
 *     #include "tardy.h"
 *
 *     struct tardy_loop loop;
 *     tardy_open(&loop, "control", 1000000);        // name, period in ns (0 if due times form no grid)
 *     for (;;) {
 *         next += 1000000;
 *         sleep_until(next);                        // CLOCK_MONOTONIC
 *         tardy_due(&loop, next);                   // first thing after waking up: this cycle was due at `next`
 *         work();
 *         tardy_done(&loop);                        // last thing: the cycle's work is complete
 *     }
 *     tardy_close(&loop);
 *
 *     $ tardy run -- ./my_program                   # without tardy, the calls do nothing
 *
 * It consists of one header without a library, and needs C99 or C++11, Linux, and a compiler with
 * the __atomic builtins (GCC, Clang). A `tardy_loop` belongs to one thread; a thread with several
 * loops opens one for each of them. tardy_due and tardy_done take no lock and never wait. They make
 * no system call, except if the C library needs one to read the clock. If tardy reads the cycles
 * too slowly, some are left out and counted as lost.
 *
 * Licence: MIT or Apache-2.0, at your choice.
 */
#ifndef TARDY_H
#define TARDY_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The memory shared with tardy, version 1: 64-bit words in the machine's byte order. After the
 * head, each loop has a region of words. */
enum {
    TARDY_WORD_MAGIC = 0,
    TARDY_WORD_REGIONS = 1,
    TARDY_WORD_SLOTS = 2,       /* capacity of a ring in cycles, a power of two */
    TARDY_WORD_REGION_WORDS = 3,
    TARDY_WORD_REFUSED = 4,     /* number of loops that found no free region */
    TARDY_HEAD_WORDS = 512,     /* the first region starts here */

    TARDY_REGION_STATE = 0,
    TARDY_REGION_PERIOD = 1,
    TARDY_REGION_THREAD = 2,
    TARDY_REGION_NAME = 4,
    TARDY_REGION_NAME_WORDS = 6,
    TARDY_REGION_HEAD = 16,     /* number of published cycles; written by the loop */
    TARDY_REGION_BEGUN = 17,    /* number of started cycles; written by the loop */
    TARDY_REGION_DUE = 18,      /* due time of the last cycle, at 18 + (started cycles & 1) */
    TARDY_REGION_TAIL = 24,     /* number of cycles that tardy has read; written by tardy */
    TARDY_REGION_SLOTS = 32,    /* the ring: number (from 0), due, start and end of each cycle */
    TARDY_SLOT_WORDS = 4,

    TARDY_STATE_FREE = 0,
    TARDY_STATE_CLAIMED = 1,
    TARDY_STATE_OPEN = 2,
    TARDY_STATE_CLOSED = 3
};

#define TARDY_MAGIC UINT64_C(0x3150415944524154) /* "TARDYAP1" */
#define TARDY_NEVER INT64_MIN                    /* end of the work of a cycle without tardy_done */

/* One loop. Private: only this header may access the fields. */
struct tardy_loop {
    uint64_t *region;
    uint64_t *memory;
    size_t bytes;
    int file;
    int is_begun;
    uint64_t slots;
    uint64_t head;
    uint64_t free_until;
    uint64_t begun;
    int64_t due;
    int64_t start;
};

/* Returns the time of CLOCK_MONOTONIC in ns. */
static inline int64_t tardy_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Converts a time of CLOCK_MONOTONIC to ns. */
static inline int64_t tardy_nanos(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Returns whether tardy is measuring the loop. */
static inline int tardy_is_open(const struct tardy_loop *loop)
{
    return loop->region != 0;
}

static inline int tardy_give_up_(struct tardy_loop *loop, int error)
{
    if (loop->memory)
        munmap(loop->memory, loop->bytes);
    if (loop->file >= 0)
        close(loop->file);
    memset(loop, 0, sizeof *loop);
    loop->file = -1;
    return -error;
}

/* Opens a loop of this name (at most 47 bytes: letters, digits, - and _) for the calling thread.
 * `period_ns` is the time between two due times, which must then lie on one grid, first + k *
 * period. If the due times form no grid, pass 0: cycles can then be late, but periods are never
 * skipped.
 *
 * Returns 1 if tardy measures the loop; 0 if the program was not started by tardy; -EINVAL for a
 * bad name or a negative period; -ENOSPC if other loops use all regions; -EPROTO if tardy has
 * another version; otherwise the negative error number of open, flock, fstat or mmap. Unless the
 * result is 1, all calls do nothing. */
static inline int tardy_open(struct tardy_loop *loop, const char *name, int64_t period_ns)
{
    const char *path = getenv("TARDY_APP");
    uint64_t count, words, index;
    size_t length = name ? strlen(name) : 0;
    struct stat attributes;

    memset(loop, 0, sizeof *loop);
    loop->file = -1;
    if (!path || !*path)
        return 0;
    if (length == 0 || length >= TARDY_REGION_NAME_WORDS * sizeof(uint64_t) || period_ns < 0)
        return -EINVAL;
    for (index = 0; index < length; index++) {
        char c = name[index];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
            return -EINVAL;
    }
    loop->file = open(path, O_RDWR | O_CLOEXEC);
    /* The lock shows tardy that a program uses the memory. The kernel releases the lock when the
     * program ends, even if it crashes. */
    if (loop->file < 0 || flock(loop->file, LOCK_SH) || fstat(loop->file, &attributes))
        return tardy_give_up_(loop, errno);
    if ((uint64_t)attributes.st_size < TARDY_HEAD_WORDS * sizeof(uint64_t))
        return tardy_give_up_(loop, EPROTO);
    loop->bytes = (size_t)attributes.st_size;
    loop->memory = (uint64_t *)mmap(0, loop->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, loop->file, 0);
    if ((void *)loop->memory == MAP_FAILED) {
        loop->memory = 0;
        return tardy_give_up_(loop, errno);
    }
    count = loop->memory[TARDY_WORD_REGIONS];
    words = loop->memory[TARDY_WORD_REGION_WORDS];
    loop->slots = loop->memory[TARDY_WORD_SLOTS];
    if (__atomic_load_n(&loop->memory[TARDY_WORD_MAGIC], __ATOMIC_ACQUIRE) != TARDY_MAGIC || loop->slots == 0
        || (loop->slots & (loop->slots - 1)) || loop->slots > loop->bytes || words > loop->bytes || count > loop->bytes
        || words < TARDY_REGION_SLOTS + TARDY_SLOT_WORDS * loop->slots
        || (TARDY_HEAD_WORDS + count * words) * sizeof(uint64_t) > loop->bytes)
        return tardy_give_up_(loop, EPROTO);
    for (index = 0; index < count; index++) {
        uint64_t *region = loop->memory + TARDY_HEAD_WORDS + index * words;
        uint64_t unused = TARDY_STATE_FREE;
        if (!__atomic_compare_exchange_n(&region[TARDY_REGION_STATE], &unused, TARDY_STATE_CLAIMED, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        region[TARDY_REGION_PERIOD] = (uint64_t)period_ns;
        region[TARDY_REGION_THREAD] = (uint64_t)syscall(SYS_gettid);
        memcpy(&region[TARDY_REGION_NAME], name, length);
        __atomic_store_n(&region[TARDY_REGION_STATE], TARDY_STATE_OPEN, __ATOMIC_RELEASE);
        loop->free_until = loop->slots;
        loop->region = region;
        return 1;
    }
    __atomic_fetch_add(&loop->memory[TARDY_WORD_REFUSED], 1, __ATOMIC_RELAXED);
    return tardy_give_up_(loop, ENOSPC);
}

static inline void tardy_hand_over_(struct tardy_loop *loop, int64_t end)
{
    uint64_t *region = loop->region, *slot;

    loop->is_begun = 0;
    if (loop->head == loop->free_until) {
        loop->free_until = __atomic_load_n(&region[TARDY_REGION_TAIL], __ATOMIC_ACQUIRE) + loop->slots;
        /* The ring is still full. tardy sees from the gap in the cycle numbers which cycles were
         * lost. */
        if (loop->head == loop->free_until)
            return;
    }
    slot = region + TARDY_REGION_SLOTS + TARDY_SLOT_WORDS * (loop->head & (loop->slots - 1));
    __atomic_store_n(&slot[0], loop->begun - 1, __ATOMIC_RELAXED);
    __atomic_store_n(&slot[1], (uint64_t)loop->due, __ATOMIC_RELAXED);
    __atomic_store_n(&slot[2], (uint64_t)loop->start, __ATOMIC_RELAXED);
    __atomic_store_n(&slot[3], (uint64_t)end, __ATOMIC_RELAXED);
    loop->head++;
    __atomic_store_n(&region[TARDY_REGION_HEAD], loop->head, __ATOMIC_RELEASE);
}

/* Reports the start of a cycle that was due at `due_ns` of CLOCK_MONOTONIC. It must be the first
 * call after waking up. */
static inline void tardy_due(struct tardy_loop *loop, int64_t due_ns)
{
    int64_t now;

    if (!loop->region)
        return;
    now = tardy_now();
    if (loop->is_begun)
        tardy_hand_over_(loop, TARDY_NEVER);
    loop->is_begun = 1;
    loop->due = due_ns;
    loop->start = now;
    loop->begun++;
    __atomic_store_n(&loop->region[TARDY_REGION_DUE + (loop->begun & 1)], (uint64_t)due_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&loop->region[TARDY_REGION_BEGUN], loop->begun, __ATOMIC_RELEASE);
}

/* Reports that the work of the cycle is complete. If a loop never calls tardy_done, tardy measures
 * only how late its cycles start. */
static inline void tardy_done(struct tardy_loop *loop)
{
    if (loop->region && loop->is_begun)
        tardy_hand_over_(loop, tardy_now());
}

/* Ends the measurement of the loop. */
static inline void tardy_close(struct tardy_loop *loop)
{
    if (!loop->region)
        return;
    if (loop->is_begun)
        tardy_hand_over_(loop, TARDY_NEVER);
    __atomic_store_n(&loop->region[TARDY_REGION_STATE], TARDY_STATE_CLOSED, __ATOMIC_RELEASE);
    tardy_give_up_(loop, 0);
}

#endif
