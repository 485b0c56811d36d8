#!/bin/bash
# Records my_loop with a private instance of tracefs, and writes NAME.dat (version 7, compressed, or version 6). EVENT replaces sched_waking.
# Run it as root in a separate mount namespace, because it mounts small files over large ones: `unshare -m ./record.sh NAME CLOCK CYCLES [7|6 [EVENT]]`.
set -eu
name=$1 clock=$2 cycles=$3 version=${4:-7} waking=${5:-sched_waking}
events="sched/sched_switch sched/$waking sched/sched_migrate_task irq/irq_handler_entry irq/irq_handler_exit irq/softirq_raise irq/softirq_entry
 irq/softirq_exit timer/hrtimer_start timer/hrtimer_cancel timer/hrtimer_expire_entry timer/hrtimer_expire_exit exceptions/page_fault_user
 exceptions/page_fault_kernel workqueue/workqueue_execute_start workqueue/workqueue_execute_end nmi/nmi_handler lock/contention_begin
 lock/contention_end power/cpu_idle"
for vector in local_timer reschedule call_function call_function_single irq_work; do
    events="$events irq_vectors/${vector}_entry irq_vectors/${vector}_exit"
done
mount --make-rprivate /
# trace-cmd would use a mounted debugfs, over whose files nothing is mounted.
umount --lazy --recursive /sys/kernel/debug 2>/dev/null || true
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
tracing=/sys/kernel/tracing instance=/sys/kernel/tracing/instances/tardy_test_data work=$(mktemp -d)
mkdir $instance
trap 'cd /; umount $tracing/events 2>/dev/null; [ ! -d $instance ] || rmdir $instance; rm -r $work' EXIT
cc -O2 -pthread -o $work/my_loop my_loop.c

# trace-cmd stores all symbols and the formats of all events, which are megabytes. The files mounted over them contain only what the trace needs.
grep -E ' (hrtimer_wakeup|tick_nohz_handler|process_timeout|posix_timer_fn|timerfd_tmrproc)( |$)' /proc/kallsyms > $work/symbols || true
mount --bind $work/symbols /proc/kallsyms
mkdir $work/events
cp $tracing/events/header_page $tracing/events/header_event $work/events
for event in $events ftrace/print; do
    [ -e $tracing/events/$event ] && mkdir -p $work/events/$event && cp $tracing/events/$event/format $work/events/$event
done

echo "$clock" > $instance/trace_clock
echo 4096 > $instance/buffer_size_kb
for event in $events; do
    case $event in exceptions/*) echo 'comm ~ "my_*"' > $instance/events/$event/filter ;; esac
    echo 1 > $instance/events/$event/enable || echo "not here: $event" >&2
done
echo 'recording begins' > $instance/trace_marker
$work/my_loop "$cycles"
echo 0 > $instance/tracing_on
mount --bind $work/events $tracing/events
trace-cmd extract -B tardy_test_data -o $work/extracted.dat > $work/log 2>&1 || cat $work/log
trace-cmd convert --file-version "$version" -i $work/extracted.dat -o $work/written.dat > $work/log 2>&1 || cat $work/log
cp $work/written.dat "$name.dat"
trace-cmd report -R -t -i "$name.dat" 2>/dev/null | gzip -9 > "$name.report.gz"
