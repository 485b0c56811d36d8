//! Tests three parts of the plugin's own code: recognising the kernel's instructions that change
//! the preemption count, interpreting a count, and selecting the samples to store.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::process::Command;

/// A program that decodes instructions of Debian's kernels 6.12 (32-bit operands) and 7.3 (64-bit
/// operands), placed at an address from which these instructions can reach the preemption count.
const PROGRAM: &str = r#"
#include PLUGIN
#include <stdio.h>

#define COUNT 0xffffffff83f4d028ull

static int failed;

static void check(const char *name, long got, long wanted)
{
	if (got == wanted)
		return;
	printf("%s: %#lx, not %#lx\n", name, got, wanted);
	failed = 1;
}

static void instruction(const char *name, const uint8_t *before, size_t length, const uint8_t *behind, size_t rest, bool changes, bool wide)
{
	uint8_t bytes[16];
	uint64_t pc = 0xffffffff81001000ull;
	size_t size = length + 4 + rest;
	int32_t distance = (int32_t)(COUNT - pc - size);

	memcpy(bytes, before, length);
	memcpy(bytes + length, &distance, 4);
	memcpy(bytes + length + 4, behind, rest);
	count_is_changed = count_is_wide = false;
	check(name, changes_count(bytes, size, pc), changes);
	check(name, count_is_changed, changes);
	check(name, count_is_wide, wide);
}

#define INSTRUCTION(name, changes, wide, rest, ...) \
	instruction(name, (uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }), (uint8_t[4]){ 0 }, rest, changes, wide)

int main(void)
{
	uint64_t wide;
	uint32_t narrow;

	known.preempt_count = COUNT;
	INSTRUCTION("incl", true, false, 0, 0x65, 0xff, 0x05);
	INSTRUCTION("decl", true, false, 0, 0x65, 0xff, 0x0d);
	INSTRUCTION("addl", true, false, 4, 0x65, 0x81, 0x05);
	INSTRUCTION("incq", true, true, 0, 0x65, 0x48, 0xff, 0x05);
	INSTRUCTION("decq", true, true, 0, 0x65, 0x48, 0xff, 0x0d);
	INSTRUCTION("addq", true, true, 4, 0x65, 0x48, 0x81, 0x05);
	INSTRUCTION("andq with a register", true, true, 0, 0x65, 0x48, 0x21, 0x05);
	INSTRUCTION("orq with a register", true, true, 0, 0x65, 0x48, 0x09, 0x05);
	INSTRUCTION("cmpxchgq", true, true, 0, 0x65, 0x48, 0x0f, 0xb1, 0x15);
	INSTRUCTION("xaddq", true, true, 0, 0x65, 0x48, 0x0f, 0xc1, 0x05);
	INSTRUCTION("movslq from it", false, false, 0, 0x65, 0x48, 0x63, 0x05);
	INSTRUCTION("movq from it", false, false, 0, 0x65, 0x48, 0x8b, 0x05);
	INSTRUCTION("cmpq", false, false, 1, 0x65, 0x48, 0x83, 0x3d);
	INSTRUCTION("incq of another segment", false, false, 0, 0x64, 0x48, 0xff, 0x05);
	INSTRUCTION("pushq", false, false, 0, 0x65, 0xff, 0x35);

	/* One section with preemption off, in a softirq, interrupts switched off twice, in a hard interrupt, and no switch due. */
	wide = 1ull << 63 | 1 << 24 | 2 << 16 | 1 << 8 | 1;
	count_in_ram = &wide;
	count_is_wide = true;
	check("wide: hard interrupt", !!(count_now() & HARD_INTERRUPT), 1);
	check("wide: softirq", !!(count_now() & SERVING_SOFTIRQ), 1);
	check("wide: depth", count_now() & PREEMPTION_BITS, 1);
	check("wide: every bit in its place", count_now(), OTHERWISE_NOT_PREEMPTIBLE | 1 << 16 | 1 << 8 | 1);
	check("wide: due", is_switch_due(), 0);
	wide = 1 << 16;
	check("wide: interrupts off is no hard interrupt", count_now() & (HARD_INTERRUPT | SERVING_SOFTIRQ | PREEMPTION_OFF), 0);
	check("wide: interrupts off forbids to switch", count_now() != 0, 1);
	check("wide: due", is_switch_due(), 1);
	wide = 0;
	check("wide: nothing", count_now(), 0);

	narrow = 1u << 31 | 1 << 16 | 1 << 8 | 2;
	count_in_ram = &narrow;
	count_is_wide = false;
	check("narrow", count_now(), 1 << 16 | 1 << 8 | 2);
	check("narrow: due", is_switch_due(), 0);
	narrow = 0;
	check("narrow: due", is_switch_due(), 1);
	return failed;
}
"#;

/// A program that takes samples with one step per instruction. There is space for four samples of a
/// thousand steps.
const SAMPLES: &str = r#"
#define STEPS_KEPT 4000u
#include PLUGIN
#include <stdio.h>

static void sample(int64_t latency, uint64_t executed)
{
	step_count = executed;
	keep_window(0, latency);
}

static int compared(const void *one, const void *other)
{
	return (int)(((const struct window *)one)->latency - ((const struct window *)other)->latency);
}

static void told(void)
{
	uint32_t i;

	qsort(windows, window_count, sizeof(*windows), compared);
	for (i = 0; i < window_count; i++)
		printf("%ld/%lu ", (long)windows[i].latency, (unsigned long)windows[i].count);
	put_windows();
	printf("and %lu left out, %lu steps kept\n", (unsigned long)left_out_windows, (unsigned long)kept_steps);
}

int main(void)
{
	int64_t latency;

	blocks[0].length = 1;
	known.instruction_ns = 1;
	known.worst = window_limit = 8;
	for (latency = 10; latency <= 60; latency += 10)
		sample(latency, 1000);
	sample(15, 10);
	sample(70, 2500);
	sample(65, 100);
	told();
	for (latency = 1; latency <= 9; latency++)
		sample(latency, 100);
	told();
	return 0;
}
"#;

/// Compiles a program that includes the plugin's source, and runs it. Returns its output.
fn printed(program: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (source, built) = (folder.path().join("test.c"), folder.path().join("test"));
    let plugin = concat!(env!("CARGO_MANIFEST_DIR"), "/../../outside/tardy_outside.c");
    std::fs::write(&source, program.replace("PLUGIN", &format!("{plugin:?}"))).unwrap();
    // Functions of QEMU may stay undefined, because the program calls none of them.
    let options = [
        "-std=gnu11",
        "-O1",
        "-Wl,--unresolved-symbols=ignore-all",
        "-no-pie",
        "-o",
    ];
    let cc = Command::new("cc")
        .args(options)
        .arg(&built)
        .arg(&source)
        .output()
        .unwrap();
    assert!(
        cc.status.success(),
        "{}",
        String::from_utf8_lossy(&cc.stderr)
    );
    let ran = Command::new(&built).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{text}{}", ran.status);
    text
}

#[test]
fn where_memory_ends_the_worst_samples_are_kept_and_the_others_counted() {
    let text = printed(SAMPLES);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "65/100 70/2500 and 6 left out, 0 steps kept");
    // In the next phase, all the space is free again. Only the eight samples that were requested
    // are kept.
    assert_eq!(
        lines[1],
        "2/100 3/100 4/100 5/100 6/100 7/100 8/100 9/100 and 6 left out, 0 steps kept"
    );
}

#[test]
fn both_widths_of_the_preemption_count_are_read() {
    assert_eq!(printed(PROGRAM), "");
}
