//! Tests how interrupts that CPUs send to each other are processed, from the bytes of the events to
//! the explanation.

use std::collections::HashMap;

use tardy_trace::cpu_mask::{CPUS_MAX, CpuMask};
use tardy_trace::event::{Decoder, Event, Head, Kind, Thread};
use tardy_trace::explain::{Facts, Holder, Samples};
use tardy_trace::format::EventFormat;
use tardy_trace::merge::Item;

const PROBE: i32 = 10;
const SENDER: i32 = 20;

/// The event's format on Linux 6.4 and later (include/trace/events/ipi.h).
const SEND_CPUMASK: &str = "name: ipi_send_cpumask
ID: 77
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:__data_loc cpumask_t cpumask;\toffset:8;\tsize:4;\tsigned:0;
\tfield:void * callsite;\toffset:16;\tsize:8;\tsigned:0;
\tfield:void * callback;\toffset:24;\tsize:8;\tsigned:0;
";

/// The event's format on Linux 6.5 and later (include/trace/events/csd.h).
const QUEUE_CPU: &str = "name: csd_queue_cpu
ID: 78
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned int cpu;\toffset:8;\tsize:4;\tsigned:0;
\tfield:void * callsite;\toffset:16;\tsize:8;\tsigned:0;
\tfield:void * func;\toffset:24;\tsize:8;\tsigned:0;
\tfield:void * csd;\toffset:32;\tsize:8;\tsigned:0;
";
/// The address of a function that another CPU runs.
const FLUSH: u64 = 0xffff_ffff_8109_0000;

/// Returns the data of the event which shows that an interrupt was sent to `cpus`, on a kernel
/// whose masks of CPUs have `mask_bytes` bytes.
fn sent_to(cpus: &[u32], mask_bytes: usize) -> Vec<u8> {
    let mut data = vec![0; 32];
    data[..2].copy_from_slice(&77_u16.to_le_bytes());
    data[4..8].copy_from_slice(&SENDER.to_le_bytes());
    let length = u32::try_from(mask_bytes).expect("masks are short");
    data[8..12].copy_from_slice(&(32 | length << 16).to_le_bytes());
    let mut mask = vec![0; mask_bytes];
    for &cpu in cpus {
        mask[cpu as usize / 8] |= 1 << (cpu % 8);
    }
    data.extend(mask);
    data
}

/// Returns the data of the event which shows that a function was queued for `cpu`.
fn queued(cpu: u32, function: u64) -> Vec<u8> {
    let mut data = vec![0; 40];
    data[..2].copy_from_slice(&78_u16.to_le_bytes());
    data[4..8].copy_from_slice(&SENDER.to_le_bytes());
    data[8..12].copy_from_slice(&cpu.to_le_bytes());
    data[24..32].copy_from_slice(&function.to_le_bytes());
    data
}

fn decoded(time: u64, data: &[u8]) -> Event {
    let formats = [("ipi", SEND_CPUMASK), ("csd", QUEUE_CPU)]
        .map(|(system, text)| EventFormat::parse(system, text).expect("it is a format"));
    Decoder::new(&formats)
        .decode(time, 200, data)
        .expect("the format describes these data")
}

fn targets(data: &[u8]) -> Vec<u32> {
    match decoded(990, data).kind {
        Kind::IpiSendMany { cpus } => cpus.iter().collect(),
        other => panic!("{other:?} instead of the targets"),
    }
}

#[test]
fn a_mask_names_cpus_up_to_512_on_kernels_with_any_number_of_cpus() {
    let all: Vec<u32> = (0..CPUS_MAX).collect();
    assert_eq!(targets(&sent_to(&all, 64)), all);
    assert_eq!(
        targets(&sent_to(&[0, 63, 64, 300, 511, 900], 1024)),
        [0, 63, 64, 300, 511]
    );
    assert_eq!(targets(&sent_to(&[1, 7], 1)), [1, 7]);
    assert_eq!(targets(&sent_to(&[], 64)), [0; 0]);
    assert_eq!(
        [3, 511, 512, u32::MAX]
            .into_iter()
            .collect::<CpuMask>()
            .iter()
            .collect::<Vec<_>>(),
        [3, 511]
    );
}

#[test]
fn the_sender_of_an_interrupt_is_named_on_every_cpu_of_a_large_machine() {
    for cpu in [0, 64, 300, 511] {
        let holders = interrupts_on(cpu, "call_function", &[]);
        assert_eq!(senders(&holders), [("motor", None)], "on CPU {cpu}");
    }
}

#[test]
fn the_function_of_an_interrupt_is_the_one_that_waited_for_it() {
    let told = |interrupt, queues: &[(u64, u32, u64)]| {
        let holders = interrupts_on(300, interrupt, queues);
        senders(&holders)[0].1
    };
    let first = (980, 300, FLUSH);
    assert_eq!(told("call_function", &[first]), Some(FLUSH));
    assert_eq!(told("ipi", &[first]), Some(FLUSH));
    assert_eq!(told("reschedule", &[first]), None, "it runs no function");
    assert_eq!(
        told("call_function", &[(980, 301, FLUSH)]),
        None,
        "of another CPU"
    );
    let second = (985, 300, 1);
    assert_eq!(
        told("call_function", &[first, second]),
        Some(FLUSH),
        "the first one is the reason for the interrupt"
    );
}

fn senders(holders: &[Holder]) -> Vec<(&str, Option<u64>)> {
    let told = |holder: &'_ Holder| holder.sender.map(|_| holder.work);
    holders
        .iter()
        .filter_map(|holder| Some((holder.sender.as_ref()?.as_str(), told(holder)?)))
        .collect()
}

/// Explains a sample on `cpu`. During this sample, an interrupt arrives that another CPU sent to
/// all CPUs. `queues` are the functions that were queued before: time, CPU and address.
fn interrupts_on(cpu: u32, interrupt: &str, queues: &[(u64, u32, u64)]) -> Vec<Holder> {
    let at = |time, cpu, pid, flags, kind| {
        let head = Head {
            flags,
            preempt_count: 0,
            pid,
        };
        Item::Event(Event {
            time,
            cpu,
            head,
            kind,
        })
    };
    let switch = |time, cpu, pid, name: &str| {
        let thread = |pid, name: &str| Thread {
            pid,
            priority: 120,
            name: name.into(),
        };
        let kind = Kind::Switch {
            previous: thread(0, "swapper"),
            previous_state: 0,
            next: thread(pid, name),
        };
        at(time, cpu, 0, 0, kind)
    };
    let everywhere: Vec<u32> = (0..CPUS_MAX).filter(|&target| target != 200).collect();
    let sent = decoded(990, &sent_to(&everywhere, 64));
    let mut samples = Samples::new(Facts::default(), &HashMap::new());
    samples.follow(PROBE);
    let name = interrupt.into();
    for item in [
        switch(900, 200, SENDER, "motor"),
        switch(950, cpu, PROBE, "cyclic"),
    ] {
        samples.take(&item);
    }
    for &(time, cpu, function) in queues {
        samples.take(&Item::Event(decoded(time, &queued(cpu, function))));
    }
    for item in [
        Item::Event(sent),
        at(1_500, cpu, PROBE, 0x09, Kind::VectorEntry { name }),
        at(2_000, cpu, PROBE, 0x09, Kind::VectorExit { name }),
    ] {
        samples.take(&item);
    }
    let delay = samples.explain(&[PROBE], cpu, 1_000, 3_000);
    delay.pieces.iter().map(|piece| piece.holder).collect()
}
