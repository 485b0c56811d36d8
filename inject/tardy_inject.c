// SPDX-License-Identifier: GPL-2.0
/*
 * Makes delays of known length. On request, this module keeps a CPU busy for a given time, in one
 * of several contexts; some of these can be preempted under some preemption models. Tests check
 * everything that measures or explains latency against these known delays. The module refuses to
 * load outside the lab's guests, which it recognises by a mark on the kernel's command line. A
 * delay is at most 50 ms long.
 *
 * debugfs, folder tardy_inject:
 *   fire   write "CONTEXT NANOSECONDS"; returns when the delay is over
 *   log    read: a line for each delay, CLOCK_MONOTONIC times
 *
 * With the parameter lengthen=FUNCTION, each call of that kernel function first executes a loop of
 * 2 x rounds instructions.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/interrupt.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>

/* The lab's mark, as in crates/tardy-lab/src/guest_job.rs. */
#define MARK "tardy.lab=1"
#define DELAY_NS_MAX (50 * NSEC_PER_MSEC)
/*
 * Maximum number of delays, which exceeds what any test requests. Further requests are refused, so
 * that the log has every delay.
 */
#define LOG_ENTRIES_MAX 4096

struct context {
	const char *name;
	void (*spin)(u64 nanoseconds);
};

struct log_entry {
	const struct context *context;
	unsigned int cpu;
	u64 asked_ns;
	u64 begun_ns;
	u64 ended_ns;
};

static DEFINE_RAW_SPINLOCK(injected_raw_lock);
static DEFINE_SPINLOCK(injected_lock);
/* During a delay, the writer of `fire` holds this mutex, which protects the log and softirq_ns. */
static DEFINE_MUTEX(fire_mutex);
static struct log_entry *fired;
static unsigned int fired_count;
static struct dentry *folder;

/*
 * The current delay. The start and the end of a delay are read within the section, so they do not
 * include entering and leaving it.
 */
static struct log_entry current_entry;

static void spin(u64 nanoseconds)
{
	u64 begun = ktime_get_ns(), now = begun;

	current_entry.cpu = raw_smp_processor_id();
	current_entry.begun_ns = begun;
	while (now - begun < nanoseconds) {
		cpu_relax();
		now = ktime_get_ns();
	}
	current_entry.ended_ns = now;
}

static void spin_preemption_off(u64 nanoseconds)
{
	preempt_disable();
	spin(nanoseconds);
	preempt_enable();
}

static void spin_interrupts_off(u64 nanoseconds)
{
	unsigned long flags;

	local_irq_save(flags);
	spin(nanoseconds);
	local_irq_restore(flags);
}

static void spin_raw_spinlock(u64 nanoseconds)
{
	raw_spin_lock(&injected_raw_lock);
	spin(nanoseconds);
	raw_spin_unlock(&injected_raw_lock);
}

static void spin_spinlock(u64 nanoseconds)
{
	spin_lock(&injected_lock);
	spin(nanoseconds);
	spin_unlock(&injected_lock);
}

static void spin_plain(u64 nanoseconds)
{
	spin(nanoseconds);
}

static DECLARE_COMPLETION(softirq_done);
static u64 softirq_ns;

static void softirq_run(struct tasklet_struct *tasklet)
{
	spin(softirq_ns);
	complete(&softirq_done);
}

static DECLARE_TASKLET(softirq_tasklet, softirq_run);

static void spin_softirq(u64 nanoseconds)
{
	softirq_ns = nanoseconds;
	reinit_completion(&softirq_done);
	/*
	 * A softirq that is raised while bottom halves are off runs as soon as they are on again.
	 * If bottom halves were on, the softirq would wait for ksoftirqd.
	 */
	local_bh_disable();
	tasklet_schedule(&softirq_tasklet);
	local_bh_enable();
	wait_for_completion(&softirq_done);
}

static const struct context contexts[] = {
	{ "preemption-off", spin_preemption_off },
	{ "interrupts-off", spin_interrupts_off },
	{ "softirq", spin_softirq },
	{ "raw-spinlock", spin_raw_spinlock },
	{ "spinlock", spin_spinlock },
	{ "plain", spin_plain },
};

static const struct context *find_context(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(contexts); i++)
		if (!strcmp(contexts[i].name, name))
			return &contexts[i];
	return NULL;
}

static int fire(const struct context *context, u64 nanoseconds)
{
	int result = 0;

	mutex_lock(&fire_mutex);
	if (fired_count == LOG_ENTRIES_MAX) {
		result = -ENOSPC;
	} else {
		current_entry.context = context;
		current_entry.asked_ns = nanoseconds;
		context->spin(nanoseconds);
		fired[fired_count++] = current_entry;
	}
	mutex_unlock(&fire_mutex);
	return result;
}

static ssize_t fire_write(struct file *file, const char __user *text, size_t length, loff_t *position)
{
	char line[64], name[24];
	const struct context *context;
	u64 nanoseconds;
	int result;

	if (length >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, text, length))
		return -EFAULT;
	line[length] = '\0';
	if (sscanf(line, "%23s %llu", name, &nanoseconds) != 2)
		return -EINVAL;
	context = find_context(name);
	if (!context || nanoseconds > DELAY_NS_MAX)
		return -EINVAL;
	result = fire(context, nanoseconds);
	return result ? result : length;
}

static const struct file_operations fire_operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = fire_write,
	.llseek = noop_llseek,
};

static int log_show(struct seq_file *output, void *unused)
{
	unsigned int i;

	seq_puts(output, "context,cpu,asked_ns,begun_ns,ended_ns\n");
	mutex_lock(&fire_mutex);
	for (i = 0; i < fired_count; i++)
		seq_printf(output, "%s,%u,%llu,%llu,%llu\n", fired[i].context->name, fired[i].cpu, fired[i].asked_ns, fired[i].begun_ns,
			   fired[i].ended_ns);
	mutex_unlock(&fire_mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(log);

static char *lengthen;
module_param(lengthen, charp, 0);
MODULE_PARM_DESC(lengthen, "kernel function that becomes longer");

static unsigned long rounds = 1;
module_param(rounds, ulong, 0);
MODULE_PARM_DESC(rounds, "rounds of the loop, two instructions each; at least 1");

#ifdef CONFIG_X86
static noinline void tardy_lengthen(void)
{
	unsigned long left = rounds;

	asm volatile("1: dec %0\n\tjnz 1b" : "+r"(left) : : "cc");
}

static int lengthen_handler(struct kprobe *probe, struct pt_regs *registers)
{
	tardy_lengthen();
	return 0;
}

static struct kprobe lengthened = { .pre_handler = lengthen_handler };

static int start_lengthening(void)
{
	if (!lengthen)
		return 0;
	if (!rounds)
		return -EINVAL;
	lengthened.symbol_name = lengthen;
	return register_kprobe(&lengthened);
}

static void stop_lengthening(void)
{
	if (lengthen)
		unregister_kprobe(&lengthened);
}
#else
static int start_lengthening(void)
{
	return lengthen ? -EOPNOTSUPP : 0;
}

static void stop_lengthening(void)
{
}
#endif

/* A module can read the kernel's command line only from /proc/cmdline. */
static int check_mark(void)
{
	struct file *file = filp_open("/proc/cmdline", O_RDONLY, 0);
	loff_t position = 0;
	ssize_t length;
	char *line, *rest, *word;
	int result = -EPERM;

	if (IS_ERR(file))
		return -EPERM;
	line = kzalloc(PAGE_SIZE, GFP_KERNEL);
	if (!line) {
		filp_close(file, NULL);
		return -ENOMEM;
	}
	length = kernel_read(file, line, PAGE_SIZE - 1, &position);
	filp_close(file, NULL);
	if (length > 0) {
		line[length] = '\0';
		rest = line;
		while ((word = strsep(&rest, " \n")))
			if (!strcmp(word, MARK))
				result = 0;
	}
	kfree(line);
	return result;
}

static int __init tardy_inject_init(void)
{
	int result = check_mark();

	if (result) {
		pr_err("this is no guest of the lab (no %s on the command line): refused\n", MARK);
		return result;
	}
	fired = kvcalloc(LOG_ENTRIES_MAX, sizeof(*fired), GFP_KERNEL);
	if (!fired)
		return -ENOMEM;
	result = start_lengthening();
	if (result) {
		pr_err("%s cannot be lengthened: error %d\n", lengthen, result);
		kvfree(fired);
		return result;
	}
	folder = debugfs_create_dir("tardy_inject", NULL);
	if (IS_ERR(folder)) {
		stop_lengthening();
		kvfree(fired);
		return PTR_ERR(folder);
	}
	debugfs_create_file("fire", 0200, folder, NULL, &fire_operations);
	debugfs_create_file("log", 0400, folder, NULL, &log_fops);
	return 0;
}

static void __exit tardy_inject_exit(void)
{
	debugfs_remove_recursive(folder);
	stop_lengthening();
	tasklet_kill(&softirq_tasklet);
	kvfree(fired);
}

module_init(tardy_inject_init);
module_exit(tardy_inject_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Delays of known length and kind, for guests of tardy's lab only");
