//! Makes two network namespaces with a pair of virtual Ethernet devices between them. The pair is
//! made over route netlink, and disappears with the last socket and thread in the namespaces.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

use tardy_sys::namespace::{self, Namespace};
use tardy_sys::socket;

/// The addresses of the sending and the receiving end. Both addresses are from the block for
/// benchmarks (RFC 2544), and nothing else uses the namespaces.
pub(super) const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// The network namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";
const PREFIX_BITS: u8 = 30;

/// The number of the device in its namespace, where the loopback device has number 1, and the
/// device's name.
const INDEX: u32 = 2;
const NAME: &[u8] = b"tardy0\0";

/// RTM_NEWLINK and RTM_NEWADDR of include/uapi/linux/rtnetlink.h.
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
/// NLM_F_REQUEST | NLM_F_ACK, and NLM_F_EXCL | NLM_F_CREATE, of include/uapi/linux/netlink.h.
/// NLMSG_ERROR is the type of the answer.
const REQUEST: u16 = 0x1 | 0x4;
const CREATE: u16 = 0x200 | 0x400;
const ANSWER: u16 = 2;
/// IFLA_IFNAME, IFLA_LINKINFO with IFLA_INFO_KIND and IFLA_INFO_DATA, IFLA_NET_NS_FD of
/// include/uapi/linux/if_link.h; VETH_INFO_PEER of veth.h.
const LINK_NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const LINK_KIND: u16 = 1;
const LINK_DATA: u16 = 2;
const LINK_NAMESPACE: u16 = 28;
const PEER: u16 = 1;
/// IFA_ADDRESS and IFA_LOCAL of include/uapi/linux/if_addr.h.
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
/// AF_INET and IFF_UP.
const INTERNET: u8 = 2;
const UP: u32 = 1;

/// The two namespaces. The calling thread is in the near namespace, from which packets are sent.
#[derive(Debug)]
pub(super) struct Pair {
    near: File,
    far: File,
}

impl Pair {
    /// Leaves the caller's namespace permanently and makes the pair. On failure, the caller stays
    /// in its namespace.
    ///
    /// # Errors
    /// Returns EPERM without CAP_SYS_ADMIN and CAP_NET_ADMIN; EOPNOTSUPP in kernels without veth
    /// devices.
    pub(super) fn make() -> io::Result<Self> {
        let before = File::open(OWN)?;
        Self::make_in_new_namespaces().inspect_err(|_| {
            // Moves the caller back to its namespace. If this fails too, the caller cannot open its
            // sockets, and their errors give the reason.
            let _ = namespace::enter_network(before.as_fd());
        })
    }

    fn make_in_new_namespaces() -> io::Result<Self> {
        let new_namespace = || {
            namespace::unshare(Namespace::Network)?;
            File::open(OWN)
        };
        let far = new_namespace()?;
        let near = new_namespace()?;
        let pair = Self { near, far };
        order(&device(pair.far.as_raw_fd()))?;
        configure(NEAR)?;
        pair.in_far(|| configure(FAR))?;
        Ok(pair)
    }

    /// Runs `work` in the far namespace. A socket that `work` opens stays there.
    pub(super) fn in_far<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        namespace::enter_network(self.far.as_fd())?;
        let done = work();
        namespace::enter_network(self.near.as_fd())?;
        done
    }
}

/// Returns the message that makes one device here and the other in the namespace of the descriptor
/// `far`.
fn device(far: i32) -> Vec<u8> {
    let named = [link(0), attribute(LINK_NAME, NAME)].concat();
    let peer = [named.clone(), attribute(LINK_NAMESPACE, &far.to_ne_bytes())].concat();
    let info = [
        attribute(LINK_KIND, b"veth\0"),
        attribute(LINK_DATA, &attribute(PEER, &peer)),
    ]
    .concat();
    message(
        NEW_LINK,
        CREATE,
        &[named, attribute(LINK_INFO, &info)].concat(),
    )
}

/// Gives the device of this namespace its address and switches it on.
fn configure(address: Ipv4Addr) -> io::Result<()> {
    // struct ifaddrmsg: family, length of the prefix, flags, scope, device.
    let mut body = vec![INTERNET, PREFIX_BITS, 0, 0];
    body.extend(INDEX.to_ne_bytes());
    for kind in [LOCAL, ADDRESS] {
        body.extend(attribute(kind, &address.octets()));
    }
    order(&message(NEW_ADDRESS, CREATE, &body))?;
    order(&message(NEW_LINK, 0, &link(UP)))
}

/// Returns struct ifinfomsg: family, padding, type (2 bytes), device, flags, and a mask of the
/// flags to change.
fn link(flags: u32) -> Vec<u8> {
    [
        [0; 4],
        INDEX.to_ne_bytes(),
        flags.to_ne_bytes(),
        flags.to_ne_bytes(),
    ]
    .concat()
}

/// Returns struct rtattr with its value. Attributes start at multiples of 4 bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).expect("the attributes here are a few bytes long");
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns struct nlmsghdr with its message.
fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + body.len()).expect("the messages here are a few bytes long");
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((REQUEST | flags).to_ne_bytes());
    // The sequence number and the sender are zero, because the socket sends only one request at a
    // time.
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

/// Sends a message to the kernel and waits for its answer.
fn order(message: &[u8]) -> io::Result<()> {
    let mut socket = File::from(socket::route_netlink()?);
    socket.write_all(message)?;
    let mut answer = [0; 4096];
    let bytes = socket.read(&mut answer)?;
    refusal(&answer[..bytes]).map_or(Ok(()), Err)
}

/// Returns the kernel's error in an answer; `None` if the code is 0. Bytes that are not an answer
/// are an error, too.
fn refusal(answer: &[u8]) -> Option<io::Error> {
    let kind = answer
        .get(4..6)
        .map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
    let code = answer
        .get(16..20)
        .and_then(|code| code.try_into().ok())
        .map(i32::from_ne_bytes);
    match (kind, code) {
        (Some(ANSWER), Some(0)) => None,
        (Some(ANSWER), Some(code)) => Some(io::Error::from_raw_os_error(-code)),
        _ => Some(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn attributes_say_their_length_and_end_at_multiples_of_four() {
        assert_eq!(
            attribute(LINK_KIND, b"veth\0"),
            [[9, 0, 1, 0], *b"veth", [0; 4]].concat().as_slice()
        );
        let message = message(NEW_LINK, 0, &link(UP));
        assert_eq!((message.len(), message[0]), (32, 32));
    }

    #[test]
    fn an_answer_that_is_none_is_a_refusal() {
        assert!(refusal(&[]).is_some());
        assert!(refusal(&[0; 20]).is_some());
        let answer = |code: i32| [message(ANSWER, 0, &[]), code.to_ne_bytes().to_vec()].concat();
        assert!(refusal(&answer(0)).is_none());
        assert_eq!(refusal(&answer(-1)).unwrap().raw_os_error(), Some(1));
    }

    #[test]
    fn datagrams_cross_from_one_namespace_to_the_other() {
        // Each thread has its own network namespace.
        std::thread::spawn(|| match Pair::make() {
            Ok(pair) => {
                let far = pair.in_far(|| UdpSocket::bind((FAR, 7))).unwrap();
                far.set_read_timeout(Some(Duration::from_millis(50)))
                    .unwrap();
                let near = UdpSocket::bind((NEAR, 0)).unwrap();
                let mut block = [0; 16];
                let received = (0..100).find_map(|_| {
                    near.send_to(b"on time", (FAR, 7))
                        .and_then(|_| far.recv(&mut block))
                        .ok()
                });
                assert_eq!(received, Some(7));
            }
            Err(error) => assert!(matches!(error.raw_os_error(), Some(1 | 95)), "{error}"),
        })
        .join()
        .unwrap();
    }
}
