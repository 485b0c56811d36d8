//! `netlink`: queries the kernel's lists of links, addresses, routes and neighbours without pause.

use std::fs::File;
use std::io::{Read, Write};

use tardy_run::parameter::Parameter;

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "netlink",
    does: "repeatedly asks the kernel for all links, addresses, routes, neighbours and rules, \
           without changing anything",
    effect: "the kernel writes long dumps under the lock of the network configuration (rtnl), for \
             which drivers and daemons wait",
    source: "today",
    parameters: &[Parameter::bytes(
        "block",
        "bytes of one read call",
        "32KiB",
        8 << 10,
        1 << 20,
    )],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

/// RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE, RTM_GETNEIGH, RTM_GETRULE of
/// include/uapi/linux/rtnetlink.h.
const QUESTIONS: [u16; 5] = [18, 22, 26, 30, 34];
/// NLM_F_REQUEST | NLM_F_DUMP of include/uapi/linux/netlink.h.
const FLAGS: u16 = 0x1 | 0x300;
/// NLMSG_ERROR and NLMSG_DONE of the same file.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Size of struct nlmsghdr, and of a query: this header and the longest body that the queries use
/// (struct ifinfomsg), in bytes.
const HEADER_BYTES: usize = 16;
const QUESTION_BYTES: usize = HEADER_BYTES + 16;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    tardy_sys::socket::route_netlink().map_err(|error| {
        Unsupported::new(
            format!("route netlink ({error})"),
            "use a kernel with CONFIG_NET and CONFIG_INET",
        )
    })?;
    resolution.plan.budget.memory =
        resolution.fit("block", 1, Resource::Memory)? * resolution.workers();
    resolution.plan.budget.processes = resolution.workers();
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let mut socket = File::from(tardy_sys::socket::route_netlink().doing("open a netlink socket")?);
    let block = worker.block();
    let mut sequence = 0_u32;
    while worker.go_on() {
        for question in QUESTIONS {
            sequence = sequence.wrapping_add(1);
            socket
                .write_all(&ask(question, sequence))
                .doing("ask the kernel for its network configuration")?;
            let (bytes, refused) =
                read_answer(&mut socket, block).doing("read the network configuration")?;
            worker.did(1, bytes);
            // Some kernels have no routing rules.
            if refused && question != QUESTIONS[4] {
                worker.failed();
            }
        }
    }
    Ok(())
}

fn ask(question: u16, sequence: u32) -> [u8; QUESTION_BYTES] {
    let mut message = [0; QUESTION_BYTES];
    message[..4].copy_from_slice(&(QUESTION_BYTES as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&question.to_ne_bytes());
    message[6..8].copy_from_slice(&FLAGS.to_ne_bytes());
    message[8..12].copy_from_slice(&sequence.to_ne_bytes());
    message
}

/// Reads the answer up to its end. Returns its number of bytes, and whether the kernel refused the
/// query.
fn read_answer(socket: &mut impl Read, block: &mut [u8]) -> std::io::Result<(u64, bool)> {
    let mut bytes = 0;
    loop {
        let count = socket.read(block)?;
        bytes += count as u64;
        match last_kind(&block[..count]) {
            Some(DONE) => return Ok((bytes, false)),
            Some(ERROR) | None => return Ok((bytes, true)),
            Some(_) => {}
        }
    }
}

/// Returns the type of the last message in a datagram; `None` if the datagram is not a sequence of
/// messages.
fn last_kind(mut messages: &[u8]) -> Option<u16> {
    loop {
        let length = u32::from_ne_bytes(messages.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(messages.get(4..6)?.try_into().ok()?);
        if length < HEADER_BYTES {
            return None;
        }
        // Messages start at multiples of 4 bytes.
        match messages.get(length.next_multiple_of(4)..) {
            Some(rest) if !rest.is_empty() => messages = rest,
            _ => return Some(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, bytes: usize) -> Vec<u8> {
        let mut message = vec![0; (HEADER_BYTES + bytes).next_multiple_of(4)];
        message[..4].copy_from_slice(&((HEADER_BYTES + bytes) as u32).to_ne_bytes());
        message[4..6].copy_from_slice(&kind.to_ne_bytes());
        message
    }

    #[test]
    fn an_answer_ends_with_its_last_message() {
        let datagrams = [[message(16, 33), message(16, 1)].concat(), message(DONE, 4)];
        assert_eq!(last_kind(&datagrams[0]), Some(16));
        let mut stream = datagrams.concat();
        let first = datagrams[0].len();
        let mut reads = 0;
        struct Datagrams<'a>(&'a [u8], usize, &'a mut usize);
        impl Read for Datagrams<'_> {
            fn read(&mut self, block: &mut [u8]) -> std::io::Result<usize> {
                let part = if *self.2 == 0 {
                    &self.0[..self.1]
                } else {
                    &self.0[self.1..]
                };
                *self.2 += 1;
                block[..part.len()].copy_from_slice(part);
                Ok(part.len())
            }
        }
        let answer =
            read_answer(&mut Datagrams(&stream, first, &mut reads), &mut [0; 256]).unwrap();
        assert_eq!(answer, (stream.len() as u64, false));
        stream.truncate(3);
        assert_eq!(last_kind(&stream), None);
        assert_eq!(last_kind(&message(ERROR, 4)[..4]), None);
    }

    #[test]
    fn the_kernel_answers_every_question() {
        let mut socket = File::from(tardy_sys::socket::route_netlink().unwrap());
        for question in &QUESTIONS[..4] {
            socket.write_all(&ask(*question, 1)).unwrap();
            let (bytes, refused) = read_answer(&mut socket, &mut [0; 32 << 10]).unwrap();
            assert!(bytes > 0 && !refused, "question {question}");
        }
    }
}
