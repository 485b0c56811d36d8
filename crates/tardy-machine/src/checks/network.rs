//! Where packets are worked on.

use tardy_core::cpu::CpuList;

use super::{Check, CheckInput, Importance, Profile, State, Weight, either, number_is};

pub(super) const STEERING: Check = Check {
    name: "packet-steering",
    weight: Weight::of(Importance::Medium),
    reads: &["sys/class/net/*/queues/*/rps_cpus", "sys/class/net/*/queues/*/xps_cpus"],
    why: "packets that are steered to a CPU are worked on there, before tasks run",
    source: "Documentation/networking/scaling.rst; TuneD, net plugin",
    look: |examined| either(steering(examined)),
};

pub(super) const BUSY_POLLING: Check = Check {
    name: "busy-polling",
    weight: Weight::of(Importance::Low),
    reads: &["proc/sys/net/core/busy_poll", "proc/sys/net/core/busy_read"],
    why: "a task that waits for a packet keeps its CPU that long",
    source: "Documentation/admin-guide/sysctl/net.rst, busy_poll and busy_read",
    look: |examined| either(busy_polling(examined)),
};

pub(super) const TIMESTAMPS: Check = Check {
    name: "tcp-timestamps",
    weight: Weight::of(Importance::Low),
    reads: &["proc/sys/net/ipv4/tcp_timestamps"],
    why: "each packet of TCP costs a little more",
    source: "Documentation/networking/ip-sysctl.rst, tcp_timestamps; Red Hat's guide, TCP timestamps",
    look: |examined| {
        let path = "proc/sys/net/ipv4/tcp_timestamps";
        number_is(examined, path, |value| value == 0, "0, where the work itself talks TCP", "sysctl net.ipv4.tcp_timestamps=0")
    },
};

fn steering(examined: &CheckInput<'_>) -> Result<State, State> {
    let mut queues = examined.texts("sys/class/net/*/queues/*/rps_cpus")?;
    queues.extend(examined.texts("sys/class/net/*/queues/*/xps_cpus")?);
    if queues.is_empty() {
        return Ok(State::none("no network device has queues that can be steered"));
    }
    let reaches = |mask: &str| CpuList::from_mask(mask).is_some_and(|cpus| !cpus.and(examined.cpus).is_empty());
    // Senders run on their own CPU: a transmit queue there is only used by what runs there.
    let reached: Vec<&String> =
        queues.iter().filter(|(path, mask)| path.ends_with("rps_cpus") && reaches(mask)).map(|(path, _)| path).collect();
    let mask = examined.other_cpus().map_or_else(|| "0".to_owned(), |others| others.to_mask());
    Ok(match reached.first() {
        None => State::good("no queue is steered here"),
        Some(first) => State::improvable(
            format!("{} queues are steered here, as {}", reached.len(), first.split('/').nth(3).unwrap_or_default()),
            "none",
            format!("echo {mask} > /{first}"),
        ),
    })
}

fn busy_polling(examined: &CheckInput<'_>) -> Result<State, State> {
    let poll = examined.number("proc/sys/net/core/busy_poll")?;
    let read = examined.optional("proc/sys/net/core/busy_read")?.and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    Ok(match (poll.max(read), examined.profile) {
        (0, _) => State::good("off"),
        (longest, Profile::Polling) => State::good(format!("up to {longest} us")),
        (longest, _) => State::improvable(format!("up to {longest} us"), "off", "sysctl net.core.busy_poll=0 net.core.busy_read=0"),
    })
}
