//! Detects whether an address is outside this machine.
//!
//! If a process answers, the digest of its machine's boot ID shows whether that machine is another
//! one. If a kernel answers (echo requests), the target is assumed to be another machine if the
//! route to it uses a network device with hardware. If a link does not leave this machine, its
//! series has `external=false` and supports no verdict.

use std::net::{IpAddr, Ipv4Addr};

use tardy_machine::root::Root;

/// Returns whether a path to the address leaves this machine. Returns false for the machine's own
/// addresses, and for those reached through devices without hardware: the loopback interface, and
/// the pairs, bridges and tunnels of containers and network namespaces. For IPv6, only the
/// machine's own addresses are recognised.
#[must_use]
pub(super) fn leads_outside(root: &Root, to: IpAddr) -> bool {
    // A socket can be bound only to an address of this machine. Binding to port 0 cannot fail
    // because of other programs.
    if to.is_loopback() || std::net::UdpSocket::bind((to, 0)).is_ok() {
        return false;
    }
    match to {
        IpAddr::V4(to) => device_towards(root, to).is_some_and(|device| is_hardware(root, &device)),
        IpAddr::V6(_) => true,
    }
}

/// Returns the device of the most specific route in /proc/net/route. Addresses in this file are
/// words in native byte order.
fn device_towards(root: &Root, to: Ipv4Addr) -> Option<String> {
    let to = u32::from_ne_bytes(to.octets());
    let table = root.read("proc/net/route").ok()?;
    let route = |line: &str| {
        let mut fields = line.split_whitespace();
        let device = fields.next()?.to_owned();
        let destination = u32::from_str_radix(fields.next()?, 16).ok()?;
        let mask = u32::from_str_radix(fields.nth(5)?, 16).ok()?;
        (to & mask == destination).then_some((mask.count_ones(), device))
    };
    table
        .lines()
        .skip(1)
        .filter_map(route)
        .max_by_key(|(length, _)| *length)
        .map(|(_, device)| device)
}

/// Returns whether the device, or one below it (a bond, a VLAN), has hardware.
fn is_hardware(root: &Root, device: &str) -> bool {
    let folder = root.path(format!("sys/class/net/{device}"));
    if folder.join("device").exists() {
        return true;
    }
    let lower = std::fs::read_dir(folder).into_iter().flatten().flatten();
    lower
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix("lower_")
                .map(str::to_owned)
        })
        .any(|below| root.path(format!("sys/class/net/{below}/device")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_most_specific_route_tells_the_device_and_hardware_stands_behind_it_or_not() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc/net")).unwrap();
        fs::create_dir_all(folder.path().join("sys/class/net/eth0/device")).unwrap();
        fs::create_dir_all(folder.path().join("sys/class/net/vlan7/lower_eth0")).unwrap();
        fs::create_dir_all(folder.path().join("sys/class/net/veth1")).unwrap();
        let word = |octets: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(octets));
        let line = |device: &str, to, mask| {
            format!(
                "{device}\t{}\t00000000\t0001\t0\t0\t0\t{}\t0\t0\t0\n",
                word(to),
                word(mask)
            )
        };
        let table = "Iface\tDestination\tGateway\n".to_owned()
            + &line("eth0", [0, 0, 0, 0], [0, 0, 0, 0])
            + &line("veth1", [10, 7, 0, 0], [255, 255, 0, 0])
            + &line("vlan7", [10, 7, 9, 0], [255, 255, 255, 0]);
        fs::write(folder.path().join("proc/net/route"), table).unwrap();
        let root = Root::at(folder.path());
        let outside = |address: [u8; 4]| leads_outside(&root, IpAddr::from(address));
        assert!(outside([192, 0, 2, 1]) && outside([10, 7, 9, 3]) && !outside([10, 7, 1, 3]));
        assert!(!outside([127, 0, 0, 1]));
    }
}
