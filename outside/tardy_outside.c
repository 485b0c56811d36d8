// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Watches the kernel of a guest of the lab through QEMU. The plugin records every section in which
 * IRQs or preemption are off, or a softirq or a hard interrupt is served. It also measures how long
 * it takes until a due switch is made, and for how long a task executes kernel code without a
 * chance to switch. On request, it stores every block of code that was executed before the worst
 * samples of each phase, and before the longest section of each kind.
 *
 * This file is a plugin for QEMU's translator. The plugin executes nothing in the guest. The
 * guest's clock counts the guest's own instructions, so the plugin does not affect it. QEMU adds
 * code to each block that counts the block's instructions. QEMU calls the plugin at the
 * instructions that matter, such as those that can start or end a section; if executed code is to
 * be stored, also at every block.
 *
 * A file of lines `NAME HEXADECIMAL` describes the kernel. The lab makes this file from the guest's
 * own kallsyms. README.md explains these lines and the format of the output.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Those parts of the plugin interface that are used. They are declared here according to QEMU's
 * documentation (docs/devel/tcg-plugins.rst), because no package contains the header. This is
 * version 1 of the interface, which QEMU 4.2 to 8.2 have.
 */
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
typedef uint32_t qemu_plugin_meminfo_t;
enum { QEMU_PLUGIN_CB_NO_REGS = 0 };
enum { QEMU_PLUGIN_MEM_RW = 3 };
enum { QEMU_PLUGIN_INLINE_ADD_U64 = 0 };
typedef void (*tb_translated)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*executed)(unsigned int vcpu, void *data);
typedef void (*accessed)(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);
typedef void (*ended)(qemu_plugin_id_t id, void *data);
typedef void (*processor_state)(qemu_plugin_id_t id, unsigned int vcpu);
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, processor_state callback);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_translated callback);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, executed callback, int flags, void *data);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int operation, void *counter, uint64_t value);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, executed callback, int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, accessed callback, int flags, int access, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, ended callback, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);
void qemu_plugin_outs(const char *text);

/*
 * QEMU's timers, with which the plugin stops the machine at a given time of the machine's clock
 * (include/qemu/timer.h, vl.c). They are not part of the plugin interface. If QEMU was built
 * without modules, it does not export them.
 */
#define OF_QEMU __attribute__((weak))
OF_QEMU void timer_init_full(void *timer, void *group, int clock, int scale, int attributes, void (*callback)(void *data), void *data);
OF_QEMU void timer_mod_ns(void *timer, int64_t time);
OF_QEMU int64_t qemu_clock_get_ns(int clock);
OF_QEMU int vm_stop(int state);
enum { QEMU_CLOCK_VIRTUAL = 1, SCALE_NS = 1, RUN_STATE_PAUSED = 4 };

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* Virtual addresses of x86-64 without KASLR (Documentation/arch/x86/x86_64/mm.rst of Linux). */
#define KERNEL_IMAGE 0xffffffff80000000ull
#define DIRECT_MAP 0xffff888000000000ull
#define KERNEL_HALF 0xffff800000000000ull

/*
 * Bits of the preemption count (include/linux/preempt.h of Linux). On x86, the highest bit is set
 * as long as no switch is due.
 */
#define PREEMPTION_BITS 0x000000ffu
#define SERVING_SOFTIRQ 0x00000100u
#define PREEMPTION_OFF 0x0000feffu
#define HARD_INTERRUPT 0x000f0000u
#define NOT_PREEMPTIBLE 0x00ffffffu
#define NO_SWITCH_DUE 0x80000000u
/*
 * Bits of a 64-bit count (Linux 7.3). The bits below those for hard interrupts count how often IRQs
 * were switched off.
 */
#define WIDE_INTERRUPTS_OFF 0x00ff0000u
#define WIDE_HARD_INTERRUPT 0x0f000000u
#define WIDE_HARD_INTERRUPT_SHIFT 8
#define WIDE_NMI 0x10000000u
#define WIDE_NO_SWITCH_DUE (1ull << 63)
/* This bit is set in a narrowed count if IRQs are off or an NMI is served, because both forbid a
 * switch. */
#define OTHERWISE_NOT_PREEMPTIBLE 0x00100000u

#define INTERRUPT_FLAG 0x200u
/* How many bytes of a task structure are searched for the name and the priority. */
#define TASK_BYTES 16384u
#define NAME_BYTES 16u

enum kind { INTERRUPTS_OFF, PREEMPTION_OFF_KIND, SOFTIRQ, INTERRUPT, BLOCKED, KINDS };

/*
 * Kinds of intervals; their numbers follow those of `enum kind`. In each phase, only the longest
 * interval of each kind is written. The first four are the terms of the bound on the scheduling
 * latency (de Oliveira and others, ECRTS 2020, table 1); hard interrupts are not counted in them.
 */
enum stretch_kind {
	/* IRQs or preemption are off, but not in order to call the scheduler. */
	BEFORE_SCHEDULER = KINDS,
	/*
	 * A switch is due, but not made yet although IRQs and preemption are on. For the idle task,
	 * the interval starts when the switch is due, and ends when the task calls the scheduler.
	 */
	DUE_STRETCH,
	/* Preemption is off in order to call the scheduler; the interval ends when preemption is on
	 * again. */
	TO_SCHEDULE,
	/* The interval starts when the scheduler switches IRQs off, and ends when preemption is on
	 * again. */
	SWITCH_TAIL,
	/*
	 * A task executes kernel code without a chance to switch. The interval starts when it
	 * enters the kernel or at its last chance, and ends at its next chance or when it returns
	 * to the program.
	 */
	NO_CHANCE,
	/*
	 * The interval starts when a switch is due, and ends when the scheduler is done; it
	 * includes all interrupts. This is the latency that the bound limits.
	 */
	SWITCH_DELAY,
	LONGESTS
};

/*
 * Tags that precede the items in the output. The tag of a section is TAG_FIRST_SITE plus the number
 * of the section's site, from 0.
 */
enum tag { TAG_SITE, TAG_TASK, TAG_MARK, TAG_OF_TASK, TAG_END, TAG_WINDOW, TAG_BLOCK, TAG_LONGEST, TAG_FIRST_SITE };

/* Messages from a guest's programs: instructions that have no effect
 * (crates/tardy-sys/src/watched.rs). */
enum mark { MARK_BEGIN = 1, MARK_END = 2, MARK_PHASE = 3 };
static const uint8_t mark_bytes[] = { 0x0f, 0x1f, 0x84, 0x00 };
static const uint8_t mark_name[] = { 'd', 'r', 't' };
/*
 * A program announces a sample by two load instructions: one loads the sample's due time, the other
 * its latency. The displacements of these instructions contain a number and the name `drt`.
 */
static const uint8_t due_load[] = { 0x48, 0x8b, 0xbe, 0x04, 'd', 'r', 't' };
static const uint8_t latency_load[] = { 0x48, 0x8b, 0xb6, 0x0c, 'd', 'r', 't' };

enum what { CLI, STI, POPF, IRET, TO_USER, EXCEPTION, INTERRUPT_ENTRY, SYSTEM_CALL, LOOK, CALL, MARK, DUE, LATENCY, CLOCK, HALT, SCHEDULER, CHANCE, CHANCE_OF_LOCK, SWAPGS };

/*
 * An instruction at which QEMU calls the plugin. `left` is the number of instructions from this
 * one, inclusive, to the end of its block. It is needed because the counter already includes the
 * whole block when QEMU calls the plugin.
 */
struct place {
	uint64_t pc;
	uint32_t left;
	uint8_t what;
	uint8_t mark;
	/*
	 * Number of the wrapper that contains this instruction, or that this instruction calls; 0
	 * if there is none. A wrapper is a function that locks or unlocks for its caller. Sections
	 * name the wrapper's caller.
	 */
	uint16_t wrapper;
};

#define PLACES (1u << 18)
static struct place places[PLACES];
#define SITES (1u << 18)
static struct site {
	uint64_t begin_pc, end_pc;
	uint32_t number;
	uint8_t kind;
} sites[SITES];
#define TASKS (1u << 14)
static struct task {
	uint64_t pointer;
	char name[NAME_BYTES];
	uint32_t number;
} tasks[TASKS];
#define ENTRIES (1u << 12)
static struct entry {
	uint64_t address;
	uint8_t what;
} entries[ENTRIES];

#define WRAPPERS 256u
static struct {
	uint64_t begin, end;
} wrappers[WRAPPERS];
static uint32_t wrapper_count;

static struct {
	uint64_t text_begin, text_end, banner, memory;
	uint64_t per_cpu_offset, preempt_count, current, init_task;
	/*
	 * Virtual time that an instruction takes, in ns, and for how many of the worst samples of a
	 * phase the executed code is stored.
	 */
	uint64_t instruction_ns, worst;
	/* Whether the code executed before the longest sections is stored. */
	uint64_t paths;
} known;

static uint64_t counter;
static uint8_t *ram;
static uint64_t ahead;
static bool knows_ahead;
static const volatile void *count_in_ram;
/* Whether the kernel has code that changes the count, and whether this code has 64-bit operands. */
static bool count_is_changed, count_is_wide;
static const volatile uint64_t *current_in_ram;
static uint32_t name_offset, priority_offset;
static bool is_on, interrupts_are_off;
static uint32_t exceptions_inside;
static uint64_t entry_at, entry_pc;
static uint64_t caller_pc, called_at;
static uint16_t called_wrapper;
static const struct place *flags_due;
static uint64_t last_task_pointer;
static uint32_t last_task, told_task, task_count = 1, site_count;
static uint64_t begun_at, last_at, corrected, unstored;
/* How many instructions were executed in those hard interrupts that have ended. */
static uint64_t interference;
/*
 * Whether the scheduler is running, whether the idle task called it, and whether it was ever seen.
 */
static bool is_in_scheduler, is_from_idle, knows_scheduler;
/* Whether the CPU executes a program rather than the kernel. This changes at the next `swapgs`. */
static bool is_in_program;
/* Whether the switch that was due has been made by now. */
static bool is_served;

/* Blocks of code, by number. */
#define BLOCKS (1u << 20)
static struct block {
	uint64_t pc;
	uint32_t bytes, length;
	/* Number that the block has in the output, from 1. */
	uint32_t told;
} blocks[BLOCKS];
static uint32_t told_blocks;

/* The last steps. The upper four bits of a step are its kind; the lower bits are its value. */
enum step { BLOCK_STEP, TASK_STEP, CONTEXT_STEP, HALT_STEP };
#define STEP_BITS 28u
#define STEP_VALUE ((1u << STEP_BITS) - 1)
#define STEPS (1u << 23)
static uint32_t steps[STEPS];
static uint64_t step_count;
/*
 * After this many steps, the task and the context are stored again, so that a window need not reach
 * far back to find them.
 */
#define STEPS_BETWEEN 4096u
static uint64_t task_of_step;
static uint32_t context_of_step;

/* Maximum number of samples of a phase for which the executed code is stored. */
#define WORST 1024u
/*
 * Maximum number of stored steps that precede the due time. These steps show how the interrupted
 * function was called.
 */
#define STEPS_BEFORE (1u << 21)
/* The same limit for the steps before the longest sections. */
#define STEPS_BEFORE_PATH (1u << 18)
/* If a section has fewer instructions than this, the code before it is not stored. */
#define PATH_INSTRUCTIONS 250u
/*
 * Maximum number of steps that are stored until the phase ends: 512 MiB. Windows and paths that do
 * not fit are left out and counted.
 */
#ifndef STEPS_KEPT
#define STEPS_KEPT (1u << 27)
#endif
#define INSTRUCTIONS_BEFORE 50000u
static struct window {
	int64_t due, latency;
	uint32_t task;
	/*
	 * When the program read the clock, in instructions since the first mark, and how many
	 * instructions followed up to the end of the last block.
	 */
	uint64_t clock_at, after;
	uint32_t *steps;
	uint64_t count;
} windows[WORST];
static uint32_t window_count, window_limit;
static uint64_t clock_at, late_count, left_out_windows, left_out_paths, kept_steps;
static const struct place *told_due_at, *told_latency_at;
static int64_t told_due;

static struct section {
	bool is_open;
	uint64_t begin, pc;
	/* How many instructions were executed in hard interrupts before the section started. */
	uint64_t interfered;
	uint32_t task;
} sections[LONGESTS];

/* In this phase, the longest section or interval of each kind. */
static struct longest {
	uint64_t length, begin_pc, end_pc, ended_at;
	uint32_t task;
	/*
	 * The steps up to the start of the section, and how many instructions follow from this
	 * start up to the end of the last block.
	 */
	uint32_t *steps;
	uint64_t count, after;
} longests[LONGESTS];

static int file = -1;
static uint8_t buffer[1 << 20];
static size_t filled;

static void flush(void)
{
	size_t done = 0;

	while (done < filled) {
		ssize_t written = write(file, buffer + done, filled - done);

		if (written <= 0) {
			/*
			 * Writing failed because the disk is full. Then the file has no end item,
			 * and its reader reports this.
			 */
			close(file);
			file = -1;
			is_on = false;
			break;
		}
		done += written;
	}
	filled = 0;
}

static void put_bytes(const void *bytes, size_t length)
{
	if (filled + length > sizeof(buffer))
		flush();
	memcpy(buffer + filled, bytes, length);
	filled += length;
}

static void put(uint64_t value)
{
	uint8_t bytes[10];
	size_t length = 0;

	do {
		bytes[length++] = (value & 0x7f) | (value > 0x7f ? 0x80 : 0);
		value >>= 7;
	} while (value);
	put_bytes(bytes, length);
}

static uint64_t mixed(uint64_t value)
{
	value ^= value >> 32;
	value *= 0xd6e8feb86659fd93ull;
	return value ^ value >> 32;
}

static void *at_physical(uint64_t physical, uint64_t length)
{
	return ram && physical < known.memory && length <= known.memory - physical ? ram + physical : NULL;
}

/*
 * Returns the host's address of memory in the kernel's image or in the direct map; NULL for other
 * memory.
 */
static void *at_virtual(uint64_t address, uint64_t length)
{
	if (address >= KERNEL_IMAGE)
		return at_physical(address - KERNEL_IMAGE, length);
	if (address >= DIRECT_MAP)
		return at_physical(address - DIRECT_MAP, length);
	return NULL;
}

/*
 * Returns the host's address of memory that the guest has just accessed. For memory outside the
 * direct map, such as a task's stack, QEMU reports an address in a space that contains all memories
 * of the machine. This address exceeds the guest's physical address by a fixed amount, which an
 * access through the direct map shows.
 */
static const void *accessed_memory(qemu_plugin_meminfo_t info, uint64_t address, uint64_t length)
{
	struct qemu_plugin_hwaddr *hardware;
	uint64_t place;
	bool is_direct = address >= DIRECT_MAP && address - DIRECT_MAP < known.memory;

	if (is_direct && knows_ahead)
		return at_virtual(address, length);
	hardware = qemu_plugin_get_hwaddr(info, address);
	if (!hardware)
		return NULL;
	place = qemu_plugin_hwaddr_phys_addr(hardware);
	if (is_direct) {
		ahead = place - (address - DIRECT_MAP);
		knows_ahead = true;
		return at_virtual(address, length);
	}
	return knows_ahead ? at_physical(place - ahead, length) : NULL;
}

static uint32_t task_number(void)
{
	uint64_t pointer;
	const char *name;
	uint64_t slot;

	if (!current_in_ram)
		return 0;
	pointer = *current_in_ram;
	if (pointer == last_task_pointer)
		return last_task;
	last_task_pointer = pointer;
	last_task = 0;
	name = at_virtual(pointer + name_offset, NAME_BYTES);
	if (!name || !name_offset)
		return 0;
	for (slot = mixed(pointer) & (TASKS - 1); task_count < TASKS - 1; slot = (slot + 1) & (TASKS - 1)) {
		struct task *task = &tasks[slot];

		if (!task->number) {
			task->pointer = pointer;
			memcpy(task->name, name, NAME_BYTES);
			task->number = task_count++;
			put(TAG_TASK);
			put_bytes(task->name, NAME_BYTES);
		} else if (task->pointer != pointer || memcmp(task->name, name, NAME_BYTES)) {
			continue;
		}
		return last_task = task->number;
	}
	return 0;
}

static struct site *site_of(uint8_t kind, uint64_t begin_pc, uint64_t end_pc)
{
	uint64_t slot = mixed(begin_pc * 31 + end_pc * 7 + kind) & (SITES - 1);

	for (;; slot = (slot + 1) & (SITES - 1)) {
		struct site *site = &sites[slot];

		if (!site->number) {
			if (site_count == SITES - SITES / 8)
				return NULL;
			*site = (struct site){ begin_pc, end_pc, ++site_count, kind };
			put(TAG_SITE);
			put(kind);
			put_bytes(&begin_pc, sizeof(begin_pc));
			put_bytes(&end_pc, sizeof(end_pc));
		} else if (site->begin_pc != begin_pc || site->end_pc != end_pc || site->kind != kind) {
			continue;
		}
		return site;
	}
}

static void put_signed(int64_t value)
{
	put((uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static void put_moment(uint64_t at)
{
	/*
	 * If an exception occurred within a block, the counter includes instructions of the block
	 * that were not executed. So a later moment may seem to be earlier.
	 */
	uint64_t later = at > last_at ? at : last_at;

	put(later - last_at);
	last_at = later;
}

/*
 * Returns the address that stands for the start or the end of a section. If the call of the wrapper
 * was seen, this address is in the function that called the wrapper.
 */
static uint64_t pc_to_name(const struct place *place)
{
	return place->wrapper && place->wrapper == called_wrapper ? caller_pc : place->pc;
}

static uint64_t interfered(uint64_t at)
{
	const struct section *interrupt = &sections[INTERRUPT];

	return interference + (interrupt->is_open && at > interrupt->begin ? at - interrupt->begin : 0);
}

static void keep_longest(unsigned int kind, const struct section *section, uint64_t end_pc, uint64_t at, uint64_t length);

static void change(enum kind kind, bool is_open, uint64_t at, const struct place *place)
{
	struct section *section = &sections[kind];
	struct site *site;

	if (section->is_open == is_open)
		return;
	section->is_open = is_open;
	if (is_open) {
		bool is_entry = kind == INTERRUPT && entry_pc;

		section->begin = is_entry ? entry_at : at;
		section->pc = is_entry ? entry_pc : pc_to_name(place);
		section->interfered = interfered(section->begin);
		section->task = task_number();
		return;
	}
	if (kind == INTERRUPT && at > section->begin)
		interference += at - section->begin;
	keep_longest(kind, section, pc_to_name(place), at, at > section->begin ? at - section->begin : 0);
	site = site_of(kind, section->pc, pc_to_name(place));
	if (!site) {
		unstored++;
		return;
	}
	if (section->task != told_task) {
		told_task = section->task;
		put(TAG_OF_TASK);
		put(told_task);
	}
	put(TAG_FIRST_SITE + site->number - 1);
	put_moment(at);
	put(at > section->begin ? at - section->begin : 0);
}

static bool is_switch_due(void)
{
	if (!count_in_ram)
		return false;
	if (count_is_wide)
		return !(*(const volatile uint64_t *)count_in_ram & WIDE_NO_SWITCH_DUE);
	return !(*(const volatile uint32_t *)count_in_ram & NO_SWITCH_DUE);
}

/* Moves the bits of a 64-bit count to the places that they have in a 32-bit count. */
static uint32_t narrowed(uint32_t wide)
{
	uint32_t count = wide & (PREEMPTION_BITS | SERVING_SOFTIRQ | PREEMPTION_OFF);

	count |= (wide & WIDE_HARD_INTERRUPT) >> WIDE_HARD_INTERRUPT_SHIFT;
	if (wide & (WIDE_INTERRUPTS_OFF | WIDE_NMI))
		count |= OTHERWISE_NOT_PREEMPTIBLE;
	return count;
}

static uint32_t count_now(void)
{
	uint32_t count;

	if (!count_in_ram)
		return 0;
	count = *(const volatile uint32_t *)count_in_ram;
	count = count_is_wide ? narrowed(count) : count & NOT_PREEMPTIBLE;
	/*
	 * The idle task always has preemption off, because no task needs to preempt it. This level
	 * is left out of the count.
	 */
	if (count & PREEMPTION_BITS && current_in_ram && *current_in_ram == known.init_task)
		count--;
	return count;
}

static bool keeps_steps(void)
{
	return known.worst || known.paths;
}

static void push_step(enum step kind, uint32_t value)
{
	steps[step_count++ & (STEPS - 1)] = (uint32_t)kind << STEP_BITS | (value & STEP_VALUE);
}

static void push_task(void)
{
	const int32_t *priority;

	task_of_step = current_in_ram ? *current_in_ram : 0;
	priority = priority_offset ? at_virtual(task_of_step + priority_offset, sizeof(*priority)) : NULL;
	push_step(TASK_STEP, (task_number() & 0xfffff) | (uint32_t)((priority ? *priority : 120) + 1) << 20);
}

/*
 * Adds a step that describes the context: 20 bits of the preemption count (depth, softirqs, hard
 * interrupts), one bit for whether IRQs are off, and one for whether a switch is due.
 */
static void push_context(uint32_t count, bool is_asked_for)
{
	uint32_t context = (count & 0xfffff) | (uint32_t)interrupts_are_off << 20 | (uint32_t)is_switch_due() << 21;

	if (context == context_of_step && !is_asked_for)
		return;
	context_of_step = context;
	push_step(CONTEXT_STEP, context);
}

static void open_stretch(enum stretch_kind kind, uint64_t at, uint64_t pc)
{
	struct section *stretch = &sections[kind];

	if (!stretch->is_open)
		*stretch = (struct section){ true, at, pc, interfered(at), task_number() };
}

/* Ends an interval. The interval's length includes the interrupts in it. */
static void close_whole(enum stretch_kind kind, uint64_t at, uint64_t pc)
{
	struct section *stretch = &sections[kind];

	if (!stretch->is_open)
		return;
	stretch->is_open = false;
	keep_longest(kind, stretch, pc, at, at > stretch->begin ? at - stretch->begin : 0);
}

/*
 * Ends an interval. The interval's length excludes the hard interrupts in it. `interfered_until` is
 * the number of instructions in hard interrupts before `at`.
 */
static void close_without(enum stretch_kind kind, uint64_t at, uint64_t pc, uint64_t interfered_until)
{
	struct section *stretch = &sections[kind];
	uint64_t whole, taken;

	if (!stretch->is_open)
		return;
	stretch->is_open = false;
	whole = at > stretch->begin ? at - stretch->begin : 0;
	taken = interfered_until - stretch->interfered;
	keep_longest(kind, stretch, pc, at, whole > taken ? whole - taken : 0);
}

static bool is_idle(void)
{
	return current_in_ram && *current_in_ram == known.init_task;
}

/* Handles a call of the kernel's scheduler function. If preemption is off, the kernel switched it
 * off in order to make this call. */
static void enter_scheduler(uint64_t at, const struct place *place)
{
	const struct section *off = &sections[PREEMPTION_OFF_KIND];
	struct section *schedule = &sections[TO_SCHEDULE];

	knows_scheduler = true;
	is_in_program = false;
	is_in_scheduler = true;
	is_from_idle = is_idle();
	close_whole(NO_CHANCE, at, place->pc);
	close_without(DUE_STRETCH, at, place->pc, interfered(at));
	*schedule = (struct section){ true, at, place->pc, interfered(at), task_number() };
	if (off->is_open)
		*schedule = *off;
	close_without(BEFORE_SCHEDULER, schedule->begin, schedule->pc, schedule->interfered);
	sections[SWITCH_TAIL].is_open = false;
}

static void leave_scheduler(uint64_t at, const struct place *place)
{
	uint64_t pc = pc_to_name(place);

	is_in_scheduler = false;
	close_without(SWITCH_TAIL, at, pc, interfered(at));
	close_without(TO_SCHEDULE, at, pc, interfered(at));
	if (is_served)
		close_whole(SWITCH_DELAY, at, pc);
	if (!is_idle())
		open_stretch(NO_CHANCE, at, pc);
}

static void look_at_switch(uint64_t at, const struct place *place, uint32_t count)
{
	bool is_blocked = interrupts_are_off || count, is_due = is_switch_due(), idle = is_idle();

	if (!is_due && sections[SWITCH_DELAY].is_open) {
		is_served = true;
		if (!is_in_scheduler)
			sections[SWITCH_DELAY].is_open = false;
	}
	if (is_due && (is_served || !sections[SWITCH_DELAY].is_open)) {
		/* The next switch is already due, before preemption is on again. */
		close_whole(SWITCH_DELAY, at, place->pc);
		open_stretch(SWITCH_DELAY, at, pc_to_name(place));
		is_served = false;
	}
	if (is_in_scheduler) {
		if (place->what == CLI && !(count & (HARD_INTERRUPT | SERVING_SOFTIRQ)))
			open_stretch(SWITCH_TAIL, at, place->pc);
		/*
		 * The count leaves out that the idle task has preemption off. So if the idle task
		 * called the scheduler, the call ends only when another task runs or IRQs are on.
		 */
		if (sections[SWITCH_TAIL].is_open && !count && !(is_from_idle && idle && interrupts_are_off))
			leave_scheduler(at, place);
	}
	if (is_in_scheduler)
		return;
	if (is_blocked)
		open_stretch(BEFORE_SCHEDULER, at, pc_to_name(place));
	else
		close_without(BEFORE_SCHEDULER, at, pc_to_name(place), interfered(at));
	if (is_due && (idle || !is_blocked))
		open_stretch(DUE_STRETCH, at, pc_to_name(place));
	else
		close_without(DUE_STRETCH, at, pc_to_name(place), interfered(at));
}

/*
 * Handles the kernel's check whether a switch is due. If the count is not 0, only the check at
 * CHANCE_OF_LOCK is a chance to switch, because the kernel releases the caller's lock there.
 */
static void take_chance(uint64_t at, const struct place *place)
{
	/* A call at most this many instructions ago led here, directly or through a jump. */
	static const uint64_t way = 3;
	uint64_t pc = at - called_at <= way ? caller_pc : place->pc;

	if ((count_now() && place->what == CHANCE) || interrupts_are_off || is_idle())
		return;
	close_whole(NO_CHANCE, at, pc);
	open_stretch(NO_CHANCE, at, pc);
}

static void cross_to_or_from_program(uint64_t at, const struct place *place)
{
	/*
	 * In load_gs_index, the kernel sets a segment for the program between two `swapgs`, which
	 * are at most this far apart. The kernel does not return to the program there.
	 */
	static const uint64_t pair_bytes = 32;
	static struct section left;
	static uint64_t left_pc;

	if (is_in_program && left_pc && place->pc > left_pc && place->pc - left_pc < pair_bytes) {
		sections[NO_CHANCE] = left;
		is_in_program = false;
		left_pc = 0;
		return;
	}
	left_pc = is_in_program ? 0 : place->pc;
	left = sections[NO_CHANCE];
	if (is_in_program)
		open_stretch(NO_CHANCE, at, place->pc);
	else
		close_whole(NO_CHANCE, at, place->pc);
	is_in_program = !is_in_program;
}

static void look(uint64_t at, const struct place *place)
{
	uint32_t count = count_now();

	if (keeps_steps())
		push_context(count, false);

	change(INTERRUPTS_OFF, interrupts_are_off, at, place);
	change(PREEMPTION_OFF_KIND, count & PREEMPTION_OFF, at, place);
	change(SOFTIRQ, count & SERVING_SOFTIRQ, at, place);
	change(INTERRUPT, count & HARD_INTERRUPT, at, place);
	change(BLOCKED, interrupts_are_off || count, at, place);
	look_at_switch(at, place, count);
}

static void find_kernel(void)
{
	static const char banner[] = "Linux version ", first_name[] = "swapper";
	const char *found, *task;
	const uint64_t *offset;
	uint32_t i;

	found = at_virtual(known.banner, sizeof(banner));
	if (!found || memcmp(found, banner, sizeof(banner) - 1)) {
		ram = NULL;
		return;
	}
	offset = at_virtual(known.per_cpu_offset, sizeof(*offset));
	if (offset && known.preempt_count)
		count_in_ram = at_virtual(*offset + known.preempt_count, 8);
	if (offset && known.current)
		current_in_ram = at_virtual(*offset + known.current, 8);
	task = at_virtual(known.init_task, TASK_BYTES);
	for (i = 0; task && i < TASK_BYTES - NAME_BYTES && !name_offset; i++)
		if (!memcmp(task + i, first_name, sizeof(first_name) - 1))
			name_offset = i;
	/* Searches the first task's structure for prio, static_prio and normal_prio, followed by
	 * rt_priority. */
	for (i = 0; task && i < TASK_BYTES - 16 && !priority_offset; i += 4) {
		static const int32_t priorities[] = { 120, 120, 120, 0 };

		if (!memcmp(task + i, priorities, sizeof(priorities)))
			priority_offset = i;
	}
}

/* Handles the execution of a block of code. */
static void block_executed(unsigned int vcpu, void *data)
{
	const struct block *block = data;

	if (!is_on)
		return;
	if (current_in_ram && *current_in_ram != task_of_step)
		push_task();
	if (!(step_count & (STEPS_BETWEEN - 1))) {
		push_task();
		push_context(count_now(), true);
	}
	push_step(BLOCK_STEP, block - blocks);
}

/*
 * Returns how many steps a window has. The window contains the steps of the last `instructions`,
 * which are those since the due time, and of the `instructions_before` before them. It starts even
 * earlier: where the CPU halted, or where the task that had the CPU before these instructions
 * executed its program. So all calls since that point are known. If there is no such point in the
 * `steps_before` steps before these instructions, the window starts with those steps. Finally, the
 * window is extended back to steps that contain a task and a context, if such steps are near.
 */
static uint64_t steps_of_window(uint64_t instructions, uint64_t instructions_before, uint64_t steps_before)
{
	uint64_t oldest = step_count > STEPS ? step_count - STEPS : 0, at = step_count, executed = 0, due_steps = 0, enough = 0;
	bool has_task = false, has_context = false, has_owner = false, was_in_program = false;
	uint32_t owner = 0;

	while (at > oldest) {
		uint32_t step = steps[--at & (STEPS - 1)];

		switch (step >> STEP_BITS) {
		case BLOCK_STEP:
			executed += blocks[step & STEP_VALUE].length;
			was_in_program |= due_steps && blocks[step & STEP_VALUE].pc < KERNEL_HALF;
			break;
		case TASK_STEP:
			has_task |= enough > 0;
			if (!due_steps)
				break;
			/*
			 * This task executed the steps between here and the task step that was
			 * visited before.
			 */
			if (!has_owner)
				owner = step & 0xfffff;
			has_owner = true;
			if (!enough && was_in_program && owner == (step & 0xfffff))
				enough = step_count - at;
			was_in_program = false;
			break;
		case CONTEXT_STEP:
			has_context |= enough > 0;
			break;
		case HALT_STEP:
			if (!enough)
				enough = step_count - at;
			break;
		}
		if (!due_steps && executed >= instructions + instructions_before)
			due_steps = step_count - at;
		if (!enough && due_steps && step_count - at > due_steps + steps_before)
			enough = step_count - at;
		if (enough && has_task && has_context)
			break;
		if (enough && step_count - at > enough + 2 * STEPS_BETWEEN)
			break;
	}
	return step_count - at;
}

/* Returns a copy of the first `length` of the last `count` steps; NULL if `length` is 0, or if the
 * space for stored steps (STEPS_KEPT) or the memory is used up. */
static uint32_t *kept_copy(uint64_t count, uint64_t length)
{
	uint32_t *copy;
	uint64_t i;

	if (!length || kept_steps + length > STEPS_KEPT)
		return NULL;
	copy = malloc(length * sizeof(*copy));
	if (!copy)
		return NULL;
	for (i = 0; i < length; i++)
		copy[i] = steps[(step_count - count + i) & (STEPS - 1)];
	kept_steps += length;
	return copy;
}

/*
 * Handles the end of a section or interval. If it is the longest of its kind in this phase, it is
 * stored; on request, so are the steps executed before it.
 */
static void keep_longest(unsigned int kind, const struct section *section, uint64_t end_pc, uint64_t at, uint64_t length)
{
	struct longest *longest = &longests[kind];
	uint64_t since = counter - section->begin, executed = 0, begin_steps = 0, count;

	if (length <= longest->length)
		return;
	longest->length = length;
	longest->begin_pc = section->pc;
	longest->end_pc = end_pc;
	longest->ended_at = at > begun_at ? at - begun_at : 0;
	longest->task = section->task;
	kept_steps -= longest->count;
	free(longest->steps);
	longest->steps = NULL;
	longest->count = 0;
	if (!known.paths || length < PATH_INSTRUCTIONS)
		return;
	while (executed < since && begin_steps < step_count && begin_steps < STEPS) {
		uint32_t step = steps[(step_count - ++begin_steps) & (STEPS - 1)];

		if (step >> STEP_BITS == BLOCK_STEP)
			executed += blocks[step & STEP_VALUE].length;
	}
	count = steps_of_window(since, 0, STEPS_BEFORE_PATH);
	/* The section starts within the last block of the copy. */
	if (executed >= since && count >= begin_steps)
		longest->steps = kept_copy(count, count - begin_steps + 1);
	if (!longest->steps) {
		left_out_paths++;
		return;
	}
	longest->count = count - begin_steps + 1;
	longest->after = blocks[longest->steps[longest->count - 1] & STEP_VALUE].length - (executed - since);
}

/*
 * Drops the shortest of the stored samples to make room for a longer one. Returns false if none of
 * them is shorter.
 */
static bool give_way_to(int64_t latency)
{
	uint32_t i, shortest = 0;

	for (i = 1; i < window_count; i++)
		if (windows[i].latency < windows[shortest].latency)
			shortest = i;
	if (!window_count || windows[shortest].latency >= latency)
		return false;
	kept_steps -= windows[shortest].count;
	free(windows[shortest].steps);
	windows[shortest] = windows[--window_count];
	return true;
}

/*
 * If a sample is one of the worst of its phase, stores the steps before it. If there is no room,
 * drops shorter samples. From then on, the phase stores only as many samples as fit. These are
 * still the worst ones.
 */
static void keep_window(int64_t due, int64_t latency)
{
	uint64_t count, after = clock_at ? counter - clock_at : 0;
	uint32_t *copy;

	if (latency <= 0 || !known.instruction_ns)
		return;
	late_count++;
	if (window_count == window_limit && !give_way_to(latency))
		return;
	count = steps_of_window(latency / known.instruction_ns + after, INSTRUCTIONS_BEFORE, STEPS_BEFORE);
	while (!(copy = kept_copy(count, count))) {
		bool has_room = give_way_to(latency);

		window_limit = window_count + has_room;
		if (!has_room)
			return;
	}
	windows[window_count++] = (struct window){ due, latency, task_number(), counter - after - begun_at, after, copy, count };
}

static void put_block(struct block *block)
{
	if (block->told)
		return;
	block->told = ++told_blocks;
	put(TAG_BLOCK);
	put_bytes(&block->pc, sizeof(block->pc));
	put(block->bytes);
	put(block->length);
}

static void put_steps(const uint32_t *kept, uint64_t count)
{
	uint64_t at;

	put(count);
	for (at = 0; at < count; at++) {
		uint32_t kind = kept[at] >> STEP_BITS, value = kept[at] & STEP_VALUE;

		put((uint64_t)(kind == BLOCK_STEP ? blocks[value].told - 1 : value) << 2 | kind);
	}
}

static void put_blocks(const uint32_t *kept, uint64_t count)
{
	uint64_t at;

	for (at = 0; at < count; at++)
		if (kept[at] >> STEP_BITS == BLOCK_STEP)
			put_block(&blocks[kept[at]]);
}

/* Writes the worst samples and the longest sections of a phase, when the phase ends. */
static void put_windows(void)
{
	uint32_t i;

	for (i = 0; i < window_count; i++) {
		struct window *window = &windows[i];

		put_blocks(window->steps, window->count);
		put(TAG_WINDOW);
		put_signed(window->due);
		put(window->latency);
		put(window->task);
		put(window->clock_at);
		put(window->after);
		put_steps(window->steps, window->count);
		free(window->steps);
		*window = (struct window){ 0 };
	}
	left_out_windows += (late_count < known.worst ? late_count : known.worst) - window_count;
	late_count = window_count = 0;
	window_limit = known.worst;
	for (i = 0; i < LONGESTS; i++) {
		struct longest *longest = &longests[i];

		if (longest->length) {
			put_blocks(longest->steps, longest->count);
			put(TAG_LONGEST);
			put(i);
			put_bytes(&longest->begin_pc, sizeof(longest->begin_pc));
			put_bytes(&longest->end_pc, sizeof(longest->end_pc));
			put(longest->task);
			put(longest->ended_at);
			put(longest->length);
			put(longest->after);
			put_steps(longest->steps, longest->count);
		}
		free(longest->steps);
		*longest = (struct longest){ 0 };
	}
	kept_steps = 0;
}

static void finish(void)
{
	if (file < 0)
		return;
	is_on = false;
	put(TAG_END);
	put(corrected);
	put(unstored);
	put(count_in_ram && count_is_changed);
	put(left_out_windows);
	put(knows_scheduler);
	put(left_out_paths);
	flush();
	close(file);
	file = -1;
}

/*
 * Handles a message from a program in the guest. At this moment, the program is in user mode, so
 * IRQs are on and the kernel holds no lock.
 */
static void marked(const struct place *place, uint64_t at)
{
	uint8_t mark = place->mark;
	int i;

	if (file < 0 || (!is_on && mark != MARK_BEGIN))
		return;
	interrupts_are_off = false;
	exceptions_inside = 0;
	entry_pc = 0;
	is_in_program = true;
	is_in_scheduler = false;
	for (i = KINDS; i < LONGESTS; i++)
		sections[i].is_open = false;
	if (!is_on) {
		find_kernel();
		is_on = true;
		begun_at = last_at = at;
	}
	look(at, place);
	if (mark == MARK_END || mark == MARK_PHASE)
		put_windows();
	put(TAG_MARK);
	put(mark);
	put_moment(at);
	if (mark == MARK_END)
		finish();
}

static void happened(unsigned int vcpu, void *data)
{
	const struct place *place = data;
	uint64_t at = counter - place->left;

	if (place->what == MARK) {
		marked(place, at);
		return;
	}
	if (!is_on)
		return;
	switch (place->what) {
	case POPF:
		flags_due = place;
		return;
	case DUE:
		told_due_at = place;
		return;
	case LATENCY:
		told_latency_at = place;
		return;
	case CLOCK:
		clock_at = at;
		return;
	case SCHEDULER:
		enter_scheduler(at, place);
		return;
	case CHANCE:
	case CHANCE_OF_LOCK:
		take_chance(at, place);
		return;
	case SWAPGS:
		cross_to_or_from_program(at, place);
		return;
	case HALT:
		if (keeps_steps()) {
			push_task();
			push_context(count_now(), true);
			push_step(HALT_STEP, 0);
		}
		return;
	case CALL:
		caller_pc = place->pc;
		called_at = at;
		called_wrapper = place->wrapper;
		break;
	case CLI:
		interrupts_are_off = true;
		break;
	case STI:
		interrupts_are_off = false;
		break;
	case IRET:
		/* If an exception occurred with IRQs off, its return does not switch them on. */
		if (exceptions_inside)
			exceptions_inside--;
		else
			interrupts_are_off = false;
		break;
	case TO_USER:
		interrupts_are_off = false;
		exceptions_inside = 0;
		break;
	case EXCEPTION:
		if (interrupts_are_off)
			exceptions_inside++;
		interrupts_are_off = true;
		break;
	case INTERRUPT_ENTRY:
	case SYSTEM_CALL:
		if (interrupts_are_off) {
			/*
			 * There are no interrupts and system calls with IRQs off, so the plugin did
			 * not see the instruction that switched IRQs on.
			 */
			corrected++;
			interrupts_are_off = false;
			exceptions_inside = 0;
			look(at, place);
		}
		if (place->what == INTERRUPT_ENTRY) {
			entry_at = at;
			entry_pc = place->pc;
		} else {
			is_in_program = true;
			/* The first instruction of the entry may be the `swapgs` itself. */
			if (place->mark)
				cross_to_or_from_program(at, place);
		}
		interrupts_are_off = true;
		break;
	default:
		break;
	}
	look(at, place);
}

/* Handles the read by which `popf` fetches the flags that it then restores. */
static void flags_read(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	const struct place *place = data;
	const uint64_t *flags;

	/*
	 * If a block ends with this instruction, QEMU 7.2 also calls back for later instructions.
	 */
	if (!is_on || flags_due != place)
		return;
	flags_due = NULL;
	flags = accessed_memory(info, address, sizeof(*flags));
	if (!flags)
		return;
	interrupts_are_off = !(*flags & INTERRUPT_FLAG);
	look(counter - place->left, place);
}

/* Handles the instruction by which a program loads a sample's due time or latency. */
static void sample_read(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	const struct place *place = data;
	const int64_t *value;

	if (!is_on || (place != told_due_at && place != told_latency_at))
		return;
	value = accessed_memory(info, address, sizeof(*value));
	if (place == told_due_at) {
		told_due_at = NULL;
		told_due = value ? *value : 0;
		return;
	}
	told_latency_at = NULL;
	if (value)
		keep_window(told_due, *value);
}

static int32_t displacement(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* Returns the number of the wrapper that contains an address, from 1; 0 if the address is in no
 * wrapper. */
static uint16_t wrapper_at(uint64_t pc)
{
	uint16_t i;

	for (i = 0; i < wrapper_count; i++)
		if (pc >= wrappers[i].begin && pc < wrappers[i].end)
			return i + 1;
	return 0;
}

/*
 * If an instruction outside all wrappers calls or jumps to a wrapper directly, returns the
 * wrapper's number; otherwise 0.
 */
static uint16_t wrapper_called(const uint8_t *bytes, size_t size, uint64_t pc)
{
	uint64_t target;
	uint16_t wrapper;

	if (size != 5 || (bytes[0] != 0xe8 && bytes[0] != 0xe9))
		return 0;
	target = pc + size + displacement(bytes + 1);
	wrapper = wrapper_at(target);
	return wrapper && wrappers[wrapper - 1].begin == target && !wrapper_at(pc) ? wrapper : 0;
}

/*
 * Handles a change of the preemption count. The count lies in the kernel's direct map, so this
 * access shows at which of the host's addresses QEMU has the guest's memory.
 */
static void count_accessed(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	if (!knows_ahead)
		accessed_memory(info, address, 4);
}

static struct place *place_of(uint64_t pc, uint32_t left, uint8_t what, uint8_t mark, uint16_t wrapper)
{
	uint64_t slot = mixed(pc * 64 + left * 8 + what) & (PLACES - 1);
	uint32_t tries;

	for (tries = 0; tries < PLACES; tries++, slot = (slot + 1) & (PLACES - 1)) {
		struct place *place = &places[slot];

		if (!place->pc)
			*place = (struct place){ pc, left, what, mark, wrapper };
		if (place->pc == pc && place->left == left && place->what == what && place->mark == mark && place->wrapper == wrapper)
			return place;
	}
	return NULL;
}

static int entry_at_address(uint64_t address)
{
	uint64_t slot = mixed(address) & (ENTRIES - 1);

	for (; entries[slot].address; slot = (slot + 1) & (ENTRIES - 1))
		if (entries[slot].address == address)
			return entries[slot].what;
	return -1;
}

/*
 * Returns whether the instruction changes the preemption count. Such an instruction accesses this
 * CPU's variables (prefix gs), and is an add, sub, inc, dec, and, or, mov, cmpxchg or xadd of 32
 * bits, or of 64 bits if the count has as many.
 */
static bool changes_count(const uint8_t *bytes, size_t size, uint64_t pc)
{
	const uint8_t *code = bytes + 1, *place;
	bool is_wide = false;
	uint64_t address;
	uint8_t kind;

	if (size < 7 || bytes[0] != 0x65 || !known.preempt_count)
		return false;
	/* The prefix that means 64-bit operands, or one of the upper eight registers. */
	if ((*code & 0xf0) == 0x40) {
		is_wide = *code & 8;
		code++;
	}
	place = code + (code[0] == 0x0f ? 2 : 1);
	kind = (*place >> 3) & 7;
	switch (code[0]) {
	case 0xff:
		if (kind > 1)
			return false;
		break;
	case 0x81:
	case 0x83:
		/* `add` and `sub`; `or` and `and`, which set and clear the bit NO_SWITCH_DUE. */
		if (kind != 0 && kind != 5 && kind != 1 && kind != 4)
			return false;
		break;
	case 0x0f:
		/* `cmpxchg` and `xadd`. */
		if (code[1] != 0xb1 && code[1] != 0xc1)
			return false;
		break;
	case 0x01:
	case 0x09:
	case 0x21:
	case 0x29:
	case 0x89:
	case 0xc7:
		break;
	default:
		return false;
	}
	if ((*place & 0xc7) == 0x05 && bytes + size >= place + 5)
		address = pc + size + displacement(place + 1);
	else if ((*place & 0xc7) == 0x04 && bytes + size >= place + 6 && place[1] == 0x25)
		address = displacement(place + 2);
	else
		return false;
	if (address != known.preempt_count)
		return false;
	count_is_changed = true;
	count_is_wide = count_is_wide || is_wide;
	return true;
}

static int what_is(const uint8_t *bytes, size_t size)
{
	if (size == 1 && bytes[0] == 0xf4)
		return HALT;
	if (size == 1 && bytes[0] == 0xfa)
		return CLI;
	if (size == 1 && bytes[0] == 0xfb)
		return STI;
	if (size == 1 && bytes[0] == 0x9d)
		return POPF;
	if (size == 2 && bytes[0] == 0x48 && bytes[1] == 0xcf)
		return IRET;
	if (size == 3 && bytes[0] == 0x48 && bytes[1] == 0x0f && (bytes[2] == 0x07 || bytes[2] == 0x35))
		return TO_USER;
	if (size == 3 && bytes[0] == 0x0f && bytes[1] == 0x01 && bytes[2] == 0xf8)
		return SWAPGS;
	if (size == 2 && bytes[0] == 0x0f && (bytes[1] == 0x07 || bytes[1] == 0x35))
		return TO_USER;
	return -1;
}

/* Returns the entry for a block in the list of blocks. The same code may be translated more than
 * once. */
static struct block *block_of(uint64_t pc, uint32_t bytes, uint32_t length)
{
	uint64_t slot = mixed(pc * 64 + length) & (BLOCKS - 1);
	uint32_t tries;

	for (tries = 0; tries < 256; tries++, slot = (slot + 1) & (BLOCKS - 1)) {
		struct block *block = &blocks[slot];

		if (!block->length)
			*block = (struct block){ pc, bytes, length, 0 };
		if (block->pc == pc && block->bytes == bytes && block->length == length)
			return block;
	}
	return NULL;
}

static int what_of_program(const uint8_t *bytes, size_t size)
{
	if (size == 8 && !memcmp(bytes, mark_bytes, sizeof(mark_bytes)) && !memcmp(bytes + 5, mark_name, sizeof(mark_name)))
		return MARK;
	if (!known.worst)
		return -1;
	if (size == sizeof(due_load) && !memcmp(bytes, due_load, size))
		return DUE;
	if (size == sizeof(latency_load) && !memcmp(bytes, latency_load, size))
		return LATENCY;
	if ((size == 2 && bytes[0] == 0x0f && bytes[1] == 0x31) || (size == 3 && bytes[0] == 0x0f && bytes[1] == 0x01 && bytes[2] == 0xf9))
		return CLOCK;
	return -1;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t length = qemu_plugin_tb_n_insns(tb), i;
	bool is_behind_change = false;
	uint32_t bytes_of_block = 0;

	qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &counter, length);
	for (i = 0; i < length; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *bytes = qemu_plugin_insn_data(insn);
		size_t size = qemu_plugin_insn_size(insn);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		uint8_t mark = 0;
		struct place *place;
		uint16_t wrapper = 0;
		int what;

		bytes_of_block += size;
		if (pc < KERNEL_HALF) {
			what = what_of_program(bytes, size);
			if (what < 0)
				continue;
			mark = what == MARK ? bytes[4] : 0;
		} else {
			if (!ram && pc >= known.text_begin && pc < known.text_end && qemu_plugin_insn_haddr(insn))
				ram = (uint8_t *)qemu_plugin_insn_haddr(insn) - (pc - KERNEL_IMAGE);
			what = entry_at_address(pc);
			if (what < 0)
				what = what_is(bytes, size);
			mark = what == SYSTEM_CALL && what_is(bytes, size) == SWAPGS;
			wrapper = wrapper_called(bytes, size, pc);
			if (what < 0 && wrapper)
				what = CALL;
			else
				wrapper = wrapper_at(pc);
			if (what < 0 && is_behind_change)
				what = LOOK;
			is_behind_change = changes_count(bytes, size, pc);
			if (is_behind_change && !knows_ahead)
				qemu_plugin_register_vcpu_mem_cb(insn, count_accessed, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
			/*
			 * If the instruction that changes the count ends its block, the count is
			 * read soon, at the next call of the plugin.
			 */
			if (what < 0)
				continue;
		}
		place = place_of(pc, length - i, what, mark, wrapper);
		if (!place)
			continue;
		/* Requests writes too, because QEMU 7.2 does not call back for reads alone. */
		if (what == POPF)
			qemu_plugin_register_vcpu_mem_cb(insn, flags_read, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, place);
		if (what == DUE || what == LATENCY)
			qemu_plugin_register_vcpu_mem_cb(insn, sample_read, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, place);
		qemu_plugin_register_vcpu_insn_exec_cb(insn, happened, QEMU_PLUGIN_CB_NO_REGS, place);
	}
	if (keeps_steps() && length) {
		struct block *block = block_of(qemu_plugin_tb_vaddr(tb), bytes_of_block, length);

		if (block)
			qemu_plugin_register_vcpu_tb_exec_cb(tb, block_executed, QEMU_PLUGIN_CB_NO_REGS, block);
	}
}

/* A timer of QEMU has 48 bytes. */
static uint64_t stop_timer[32];
static bool stop_is_set;
/* The value that a program last read from the guest's clock, and how many ns after this value the
 * machine stops. */
static int64_t clock_value, stop_after;

static void stop_timer_fired(void *data)
{
	if (stop_is_set)
		vm_stop(RUN_STATE_PAUSED);
	else
		clock_value = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

/*
 * A read of the clock ends its block. A timer that has expired is called at this point, where the
 * clock still has the value that the program has read.
 */
static void clock_read(unsigned int vcpu, void *data)
{
	if (!stop_is_set)
		timer_mod_ns(stop_timer, 0);
}

static void begin_reached(unsigned int vcpu, void *data)
{
	if (stop_is_set)
		return;
	stop_is_set = true;
	timer_mod_ns(stop_timer, clock_value + stop_after);
}

static void translated_to_stop(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t length = qemu_plugin_tb_n_insns(tb), i;

	if (stop_is_set || qemu_plugin_tb_vaddr(tb) >= KERNEL_HALF)
		return;
	for (i = 0; i < length; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *bytes = qemu_plugin_insn_data(insn);
		int what = what_of_program(bytes, qemu_plugin_insn_size(insn));

		if (what == CLOCK)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, clock_read, QEMU_PLUGIN_CB_NO_REGS, NULL);
		else if (what == MARK && bytes[4] == MARK_BEGIN)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, begin_reached, QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

static void processor_made(qemu_plugin_id_t id, unsigned int vcpu)
{
	timer_init_full(stop_timer, NULL, QEMU_CLOCK_VIRTUAL, SCALE_NS, 0, stop_timer_fired, NULL);
}

/* Stops the machine `after` ns after the last read of the clock before the guest's first mark. */
static int install_stop(qemu_plugin_id_t id, const char *after)
{
	if (!timer_init_full || !timer_mod_ns || !qemu_clock_get_ns || !vm_stop) {
		qemu_plugin_outs("tardy_outside: this QEMU does not export its timers\n");
		return 1;
	}
	for (; *after >= '0' && *after <= '9'; after++)
		stop_after = stop_after * 10 + *after - '0';
	/* The plugin recognises reads of the clock only if it keeps samples, so it keeps one. */
	known.worst = 1;
	qemu_plugin_register_vcpu_init_cb(id, processor_made);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated_to_stop);
	return 0;
}

static void at_exit(qemu_plugin_id_t id, void *data)
{
	/* The guest did not report its end. The file contains the output up to here, but no end
	 * item. */
	if (file >= 0) {
		flush();
		if (file >= 0)
			close(file);
		file = -1;
	}
}

static void add_entry(uint64_t address, uint8_t what)
{
	uint64_t slot = mixed(address) & (ENTRIES - 1);
	uint32_t tries;

	for (tries = 0; tries < ENTRIES / 2 && entries[slot].address; tries++)
		slot = (slot + 1) & (ENTRIES - 1);
	if (!entries[slot].address)
		entries[slot] = (struct entry){ address, what };
}

/* A line is a name, a blank and a hexadecimal number. */
static bool read_line(const char *line)
{
	static const struct {
		const char *name;
		uint64_t *value;
	} values[] = {
		{ "text_begin", &known.text_begin }, { "text_end", &known.text_end }, { "banner", &known.banner },
		{ "memory", &known.memory }, { "per_cpu_offset", &known.per_cpu_offset }, { "preempt_count", &known.preempt_count },
		{ "current", &known.current }, { "init_task", &known.init_task },
		{ "instruction_ns", &known.instruction_ns }, { "worst", &known.worst },
		{ "paths", &known.paths },
	};
	const char *blank = strchr(line, ' ');
	uint64_t value = 0;
	size_t length, i;
	const char *digit;

	if (!blank)
		return false;
	length = blank - line;
	for (digit = blank + 1; *digit; digit++) {
		int nibble = *digit >= '0' && *digit <= '9' ? *digit - '0' : *digit >= 'a' && *digit <= 'f' ? *digit - 'a' + 10 : -1;

		if (nibble < 0)
			return false;
		value = value << 4 | nibble;
	}
	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (strlen(values[i].name) == length && !memcmp(line, values[i].name, length)) {
			*values[i].value = value;
			return true;
		}
	if (length == 9 && !memcmp(line, "exception", 9))
		add_entry(value, EXCEPTION);
	else if (length == 9 && !memcmp(line, "interrupt", 9))
		add_entry(value, INTERRUPT_ENTRY);
	else if (length == 11 && !memcmp(line, "system_call", 11))
		add_entry(value, SYSTEM_CALL);
	else if (length == 9 && !memcmp(line, "scheduler", 9))
		add_entry(value, SCHEDULER);
	else if (length == 6 && !memcmp(line, "chance", 6))
		add_entry(value, CHANCE);
	else if (length == 14 && !memcmp(line, "chance_of_lock", 14))
		add_entry(value, CHANCE_OF_LOCK);
	else if (length == 13 && !memcmp(line, "wrapper_begin", 13) && wrapper_count < WRAPPERS)
		wrappers[wrapper_count].begin = value;
	else if (length == 11 && !memcmp(line, "wrapper_end", 11) && wrapper_count < WRAPPERS)
		wrappers[wrapper_count++].end = value;
	else
		return false;
	return true;
}

static bool read_known(const char *path)
{
	static char text[1 << 16];
	size_t length = 0;
	ssize_t got;
	char *line, *end;
	int source = open(path, O_RDONLY | O_CLOEXEC);

	if (source < 0)
		return false;
	while (length < sizeof(text) - 1 && (got = read(source, text + length, sizeof(text) - 1 - length)) > 0)
		length += got;
	close(source);
	for (line = text; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		if (!read_line(line))
			return false;
	}
	return *line == '\0' && length > 0;
}

/* Arguments: `known=FILE` and `out=FILE`, or `stop=NS`. */
__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	static const char magic[8] = "tardyout";
	const char *source = NULL, *out = NULL;
	int i;

	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "stop=", 5))
			return install_stop(id, argv[i] + 5);
		if (!strncmp(argv[i], "known=", 6))
			source = argv[i] + 6;
		else if (!strncmp(argv[i], "out=", 4))
			out = argv[i] + 4;
	}
	if (!source || !out || !read_known(source)) {
		qemu_plugin_outs("tardy_outside: what is known of the kernel cannot be read\n");
		return 1;
	}
	file = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (file < 0) {
		qemu_plugin_outs("tardy_outside: the file for what is seen cannot be made\n");
		return 1;
	}
	if (known.worst > WORST)
		known.worst = WORST;
	window_limit = known.worst;
	put_bytes(magic, sizeof(magic));
	put(3);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
