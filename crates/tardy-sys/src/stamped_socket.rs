//! Datagrams with the time at which the kernel received them: setsockopt(2) SO_TIMESTAMPNS,
//! recvmsg(2).

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// Space for control messages, as a number of words of eight bytes. A timespec with its header
/// takes four words.
const CONTROL_WORDS: usize = 16;

/// A received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Length in bytes, at most that of the buffer.
    pub bytes: usize,
    /// Time at which the kernel received the datagram, in ns of CLOCK_REALTIME; absent if the
    /// kernel gave no time stamp.
    pub stamp: Option<i64>,
}

/// Makes the kernel add a time stamp to each datagram that `socket` receives, in software, when the
/// interface delivers the datagram.
///
/// # Errors
/// Returns the errors of setsockopt(2).
pub fn stamp_received(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::SO_TIMESTAMPNS, 1)
}

/// Makes reads of `socket` poll the device for `micros` us, if the device supports polling
/// (SO_BUSY_POLL). To set a higher value than the current one, the process needs CAP_NET_ADMIN.
///
/// # Errors
/// Returns EPERM; ENOPROTOOPT if the kernel lacks this option.
pub fn busy_poll(socket: &UdpSocket, micros: i32) -> io::Result<()> {
    set(socket, libc::SO_BUSY_POLL, micros)
}

fn set(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let bytes = std::mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes at the pointer, which points to an integer of that
    // size.
    crate::check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(&value).cast(),
            bytes,
        )
    })
    .map(drop)
}

/// Receives the next datagram into `buffer`; a longer datagram is truncated. With `wait`, waits for
/// a datagram; otherwise returns `None` if there is none.
///
/// # Errors
/// Returns the errors of recvmsg(2), such as ECONNREFUSED if the peer's port is closed. After
/// EAGAIN and EINTR, returns `None` instead of an error.
#[inline]
pub fn receive(socket: &UdpSocket, buffer: &mut [u8], wait: bool) -> io::Result<Option<Datagram>> {
    receive_with(socket, buffer, wait, None)
}

/// Waits for the next datagram within the socket's time limit. Returns the datagram and its sender,
/// or `None` if the time is up.
///
/// # Errors
/// Fails as [`receive`] does.
#[inline]
pub fn receive_from(
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> io::Result<Option<(Datagram, SocketAddr)>> {
    let mut name = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let Some(received) = receive_with(socket, buffer, true, Some(&mut name))? else {
        return Ok(None);
    };
    // SAFETY: sockaddr_storage is plain data. Its initial zeros are valid, and so are the bytes
    // that the kernel wrote.
    let name = unsafe { name.assume_init() };
    let from = address(&name).ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    Ok(Some((received, from)))
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: a name of this family is a sockaddr_in, and a sockaddr_storage is at least as
            // large and as aligned.
            let name = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            Some(
                (
                    Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr)),
                    u16::from_be(name.sin_port),
                )
                    .into(),
            )
        }
        libc::AF_INET6 => {
            // SAFETY: a name of this family is a sockaddr_in6, and a sockaddr_storage is at least
            // as large and as aligned.
            let name = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some(
                SocketAddrV6::new(
                    address,
                    u16::from_be(name.sin6_port),
                    name.sin6_flowinfo,
                    name.sin6_scope_id,
                )
                .into(),
            )
        }
        _ => None,
    }
}

#[inline]
fn receive_with(
    socket: &UdpSocket,
    buffer: &mut [u8],
    wait: bool,
    name: Option<&mut MaybeUninit<libc::sockaddr_storage>>,
) -> io::Result<Option<Datagram>> {
    let mut control = MaybeUninit::<[u64; CONTROL_WORDS]>::uninit();
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: msghdr is plain data, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    if let Some(name) = name {
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = std::mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    }
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = (CONTROL_WORDS * 8) as _;
    let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: `message` names a buffer and a space for control messages, each with its length, and
    // both outlive the call.
    let bytes = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) };
    if bytes < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    }
    Ok(Some(Datagram {
        bytes: bytes as usize,
        stamp: stamp(&message),
    }))
}

fn stamp(message: &libc::msghdr) -> Option<i64> {
    // SAFETY: recvmsg filled `message`: its control length is that of the messages that the kernel
    // wrote, in memory that still lives.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: the pointer is null, or points to the header of a control message within that memory,
    // which is aligned because it consists of words.
    while let Some(found) = unsafe { header.as_ref() } {
        if found.cmsg_level == libc::SOL_SOCKET && found.cmsg_type == libc::SCM_TIMESTAMPNS {
            // SAFETY: the header is valid, as above.
            let data = unsafe { libc::CMSG_DATA(header) };
            // SAFETY: a message of this kind contains one timespec; the read does not assume
            // alignment.
            let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
            #[allow(
                clippy::unnecessary_cast,
                reason = "time_t has 32 bits on some targets"
            )]
            return Some(time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64);
        }
        // SAFETY: both pointers are valid, as above.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_comes_with_a_stamp_between_sending_and_now() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        stamp_received(&receiver).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(receive(&receiver, &mut buffer, false).unwrap(), None);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = crate::clock::realtime();
        sender
            .send_to(b"first", receiver.local_addr().unwrap())
            .unwrap();
        let (received, from) = receive_from(&receiver, &mut buffer).unwrap().unwrap();
        assert_eq!((received.bytes, from), (5, sender.local_addr().unwrap()));
        sender
            .send_to(b"on time, and more", receiver.local_addr().unwrap())
            .unwrap();
        let received = receive(&receiver, &mut buffer, true).unwrap().unwrap();
        assert_eq!((received.bytes, &buffer), (8, b"on time,"));
        let stamp = received.stamp.unwrap();
        assert!(
            before <= stamp && stamp <= crate::clock::realtime(),
            "{before} {stamp}"
        );
    }

    #[test]
    fn senders_of_the_newer_protocol_are_told_too() {
        let Ok(receiver) = UdpSocket::bind("[::1]:0") else {
            return;
        };
        let sender = UdpSocket::bind("[::1]:0").unwrap();
        sender
            .send_to(b"six", receiver.local_addr().unwrap())
            .unwrap();
        assert_eq!(
            receive_from(&receiver, &mut [0; 8]).unwrap().unwrap().1,
            sender.local_addr().unwrap()
        );
    }

    #[test]
    fn a_closed_port_is_an_error() {
        let closed = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(closed).unwrap();
        socket.send(b"anybody?").unwrap();
        assert_eq!(
            receive(&socket, &mut [0; 8], true)
                .unwrap_err()
                .raw_os_error(),
            Some(libc::ECONNREFUSED)
        );
    }
}
