//! Sockets that the standard library has no constructor for: ICMP echo and route netlink.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The kind of socket for echo requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EchoKind {
    /// A ping socket: the kernel sets the identifier, and replies come without their IP header.
    /// net.ipv4.ping_group_range defines who may use it.
    Ping,
    /// A raw socket, which needs CAP_NET_RAW. Replies come with their IP header, and packets for
    /// other programs arrive too.
    Raw,
}

/// Opens a socket for ICMP echo over IPv4. The socket is returned as the standard library's type
/// for UDP sockets, because this type can connect, send and receive.
///
/// # Errors
/// Returns EPERM or EACCES if neither kind is allowed.
pub fn echo() -> io::Result<(UdpSocket, EchoKind)> {
    match open(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP) {
        Ok(socket) => Ok((UdpSocket::from(socket), EchoKind::Ping)),
        Err(_) => Ok((
            UdpSocket::from(open(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)?),
            EchoKind::Raw,
        )),
    }
}

/// Opens a socket to query the kernel's links, addresses and routes. A write sends a request to the
/// kernel, a read returns the reply.
///
/// # Errors
/// Returns EPROTONOSUPPORT if the kernel lacks route netlink; EMFILE, ENFILE.
pub fn route_netlink() -> io::Result<OwnedFd> {
    open(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)
}

/// UDP_SEGMENT of include/uapi/linux/udp.h.
const UDP_SEGMENT: libc::c_int = 103;

/// Makes the kernel split each send into datagrams of `bytes` bytes (Linux 4.18). The datagrams of
/// one send pass through the network stack as a single packet. A receiver on the same machine gets
/// them individually, but at the same time.
///
/// # Errors
/// Returns ENOPROTOOPT in older kernels; EINVAL.
pub fn send_in_segments(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    let value = libc::c_int::from(bytes);
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads one int at `value`, which outlives the call.
    crate::check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            UDP_SEGMENT,
            std::ptr::from_ref(&value).cast(),
            length,
        )
    })
    .map(drop)
}

/// Switches on the loopback interface of the process's network namespace. In a new namespace, this
/// interface is off.
///
/// # Errors
/// Returns EPERM without CAP_NET_ADMIN in that namespace.
pub fn switch_loopback_on() -> io::Result<()> {
    let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // SAFETY: ifreq is plain data, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    // SAFETY: SIOCGIFFLAGS reads the name and fills the flags of one ifreq, which is valid.
    crate::check(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFFLAGS as _,
            std::ptr::from_mut(&mut request),
        )
    })?;
    // SAFETY: the call above filled the flags, which are the union's active field.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which is valid.
    crate::check(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            std::ptr::from_ref(&request),
        )
    })
    .map(drop)
}

fn open(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket takes three integers.
    let fd = crate::check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_socket_is_had_or_the_right_is_missing() {
        match echo() {
            Ok((socket, _)) => socket.connect("127.0.0.1:0").unwrap(),
            Err(error) => assert!(
                matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)),
                "{error}"
            ),
        }
    }

    #[test]
    fn the_loopback_interface_of_a_new_namespace_is_switched_on() {
        use crate::namespace::{Namespace, unshare};
        std::thread::spawn(|| match unshare(Namespace::Network) {
            Ok(()) => {
                let listen = || {
                    std::net::TcpListener::bind("127.0.0.1:0")
                        .and_then(|l| std::net::TcpStream::connect(l.local_addr()?))
                };
                assert_eq!(
                    listen().unwrap_err().raw_os_error(),
                    Some(libc::ENETUNREACH)
                );
                switch_loopback_on().unwrap();
                listen().unwrap();
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_sent_at_once_comes_as_segments() {
        let (one, other) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        one.connect(other.local_addr().unwrap()).unwrap();
        match send_in_segments(&one, 10) {
            Ok(()) => {
                one.send(&[7; 25]).unwrap();
                let mut block = [0; 64];
                assert_eq!(
                    [(); 3].map(|()| other.recv(&mut block).unwrap()),
                    [10, 10, 5]
                );
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT)),
        }
    }

    #[test]
    fn a_protocol_that_does_not_exist_is_an_error() {
        assert!(open(libc::AF_NETLINK, libc::SOCK_RAW, 9999).is_err());
        drop(route_netlink().unwrap());
    }
}
