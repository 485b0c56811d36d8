//! Checks which CPUs process packets.

use tardy_core::cpu::CpuList;
use tardy_sys::ethtool::Coalescing;

use super::{Check, CheckInput, Importance, Profile, State, Weight, either, number_is};
use crate::watch::NETWORK_DEVICES;

pub(super) const STEERING: Check = Check {
    name: "packet-steering",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "sys/class/net/*/queues/*/rps_cpus",
        "sys/class/net/*/queues/*/xps_cpus",
    ],
    why: "a CPU processes packets steered to it before it runs tasks",
    source: "Documentation/networking/scaling.rst; TuneD, net plugin",
    look: |examined| either(steering(examined)),
};

pub(super) const QUEUES: Check = Check {
    name: "network-queues",
    weight: Weight::of(Importance::Medium),
    reads: &[NETWORK_DEVICES],
    why: "a device with more queues than housekeeping CPUs also interrupts other CPUs",
    source: "Documentation/networking/scaling.rst, RSS; Red Hat's guide, ethtool -L",
    look: |examined| either(queues(examined)),
};

pub(super) const COALESCING: Check = Check {
    name: "interrupt-coalescing",
    weight: Weight::of(Importance::Low),
    reads: &[NETWORK_DEVICES],
    why: "a device may delay the interrupt for a received packet by the coalescing time",
    source: "Documentation/networking/ethtool-netlink.rst, COALESCE_GET; Red Hat's guide, ethtool \
             -C",
    look: |examined| either(coalescing(examined)),
};

pub(super) const BUSY_POLLING: Check = Check {
    name: "busy-polling",
    weight: Weight::of(Importance::Low),
    reads: &["proc/sys/net/core/busy_poll", "proc/sys/net/core/busy_read"],
    why: "a task that waits for a packet keeps its CPU for up to the polling time",
    source: "Documentation/admin-guide/sysctl/net.rst, busy_poll and busy_read",
    look: |examined| either(busy_polling(examined)),
};

pub(super) const TIMESTAMPS: Check = Check {
    name: "tcp-timestamps",
    weight: Weight::of(Importance::Low),
    reads: &["proc/sys/net/ipv4/tcp_timestamps"],
    why: "timestamps add a little CPU time to each TCP packet",
    source: "Documentation/networking/ip-sysctl.rst, tcp_timestamps; Red Hat's guide, TCP \
             timestamps",
    look: |examined| {
        let path = "proc/sys/net/ipv4/tcp_timestamps";
        number_is(
            examined,
            path,
            |value| value == 0,
            "0, if the work itself uses TCP",
            "sysctl net.ipv4.tcp_timestamps=0",
        )
    },
};

fn steering(examined: &CheckInput<'_>) -> Result<State, State> {
    let mut queues = examined.texts("sys/class/net/*/queues/*/rps_cpus")?;
    queues.extend(examined.texts("sys/class/net/*/queues/*/xps_cpus")?);
    if queues.is_empty() {
        return Ok(State::none("there are no network queues to steer"));
    }
    let reaches = |mask: &str| {
        CpuList::from_mask(mask).is_some_and(|cpus| !cpus.and(examined.cpus).is_empty())
    };
    // Transmit queues (xps_cpus) are not judged, because a sender uses a queue assigned to the CPU
    // on which it runs. So a transmit queue serves only tasks on the CPUs assigned to it.
    let reached: Vec<&String> = queues
        .iter()
        .filter(|(path, mask)| path.ends_with("rps_cpus") && reaches(mask))
        .map(|(path, _)| path)
        .collect();
    let mask = examined
        .other_cpus()
        .map_or_else(|| "0".to_owned(), |others| others.to_mask());
    Ok(match reached.first() {
        None => State::good("0 network queues are steered to these CPUs"),
        Some(first) => State::improvable(
            format!(
                "{} network queues are steered to these CPUs, such as those of {}",
                reached.len(),
                first.split('/').nth(3).unwrap_or_default()
            ),
            "none",
            format!("echo {mask} > /{first}"),
        ),
    })
}

/// Returns the names of the network devices that have hardware, whether real or emulated.
fn devices(examined: &CheckInput<'_>) -> Result<Vec<String>, State> {
    let found = examined.texts(NETWORK_DEVICES)?;
    let names: Vec<String> = found
        .iter()
        .filter_map(|(path, _)| Some(path.split('/').nth(3)?.to_owned()))
        .collect();
    if names.is_empty() {
        Err(State::none("there is no physical network device"))
    } else {
        Ok(names)
    }
}

fn queues(examined: &CheckInput<'_>) -> Result<State, State> {
    let devices = devices(examined)?;
    let online = examined
        .facts
        .processors
        .online
        .as_ref()
        .ok_or_else(|| State::unknown("/sys/devices/system/cpu/online cannot be read"))?;
    let left = online.minus(examined.cpus).len();
    if left == 0 {
        return Err(State::none("the work uses every CPU"));
    }
    let root = examined.root()?;
    let of = |device: &String| {
        root.matching(&format!("sys/class/net/{device}/queues/rx-*"))
            .len()
    };
    let most = devices
        .iter()
        .map(|device| (of(device), device))
        .max()
        .unwrap_or((0, &devices[0]));
    Ok(match most {
        (count, _) if count <= left => State::good(format!(
            "at most {count} queues per device, for {left} CPUs"
        )),
        (count, device) => State::improvable(
            format!("{device} has {count} queues"),
            format!("at most {left} queues"),
            format!("ethtool -L {device} combined {left}"),
        ),
    })
}

fn coalescing(examined: &CheckInput<'_>) -> Result<State, State> {
    devices(examined)?;
    let watched = examined
        .watched
        .ok_or_else(|| State::unknown("the devices were not queried"))?;
    let found = watched.coalescing.as_ref().map_err(|error| {
        State::unknown(format!(
            "the devices cannot be queried (SIOCETHTOOL: {error})"
        ))
    })?;
    if found.is_empty() {
        return Err(State::none("network devices do not coalesce interrupts"));
    }
    let waits = |(name, coalescing): (&String, &Coalescing)| match *coalescing {
        Coalescing {
            is_adaptive: true, ..
        } => Some(format!("{name}: adaptive")),
        Coalescing {
            receive_microseconds: 0,
            ..
        } => None,
        Coalescing {
            receive_microseconds,
            ..
        } => Some(format!("{name}: {receive_microseconds} us")),
    };
    let waiting: Vec<String> = found.iter().filter_map(waits).collect();
    Ok(
        match waiting.first().and_then(|first| first.split(':').next()) {
            None => State::good("0 us"),
            Some(first) => State::improvable(
                waiting.join(", "),
                "0 us, if a task waits for packets",
                format!("ethtool -C {first} adaptive-rx off rx-usecs 0"),
            ),
        },
    )
}

fn busy_polling(examined: &CheckInput<'_>) -> Result<State, State> {
    let poll = examined.number("proc/sys/net/core/busy_poll")?;
    let read = examined
        .optional("proc/sys/net/core/busy_read")?
        .and_then(|text| text.parse::<i64>().ok())
        .unwrap_or(0);
    Ok(match (poll.max(read), examined.profile) {
        (0, _) => State::good("off"),
        (longest, Profile::Polling) => State::good(format!("tasks poll for up to {longest} us")),
        (longest, _) => State::improvable(
            format!("tasks poll for up to {longest} us"),
            "off",
            "sysctl net.core.busy_poll=0 net.core.busy_read=0",
        ),
    })
}
