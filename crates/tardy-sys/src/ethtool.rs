//! Reads settings of a network device from its driver: SIOCETHTOOL, include/uapi/linux/ethtool.h.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

const GET_COALESCING: u32 = 0x0e;
/// Length of `struct ethtool_coalesce`, in words of 32 bits.
const WORDS: usize = 23;
/// Indices of members in these words.
const RECEIVE_MICROSECONDS: usize = 1;
const IS_ADAPTIVE_RECEIVE: usize = 10;

/// How a device collects received packets before it interrupts the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coalescing {
    /// `rx-usecs`: how long the device collects packets.
    pub receive_microseconds: u32,
    /// `adaptive-rx`: whether the driver adapts this time to the rate of packets.
    pub is_adaptive: bool,
}

/// Reads the settings of the device `device` in the caller's network namespace.
///
/// # Errors
/// Returns EOPNOTSUPP if the driver lacks these settings, ENODEV if the device does not exist,
/// EINVAL if the name is too long.
pub fn coalescing(device: &str) -> io::Result<Coalescing> {
    // The request works on any socket.
    let socket = UnixDatagram::unbound()?;
    let mut words = [0_u32; WORDS];
    words[0] = GET_COALESCING;
    // SAFETY: an ifreq of zeros is a valid request without a name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the kernel reads the request and fills this command's structure, for which `words` is
    // large enough. The request and the structure outlive the call.
    crate::check(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCETHTOOL as _,
            std::ptr::from_mut(&mut request),
        )
    })?;
    Ok(Coalescing {
        receive_microseconds: words[RECEIVE_MICROSECONDS],
        is_adaptive: words[IS_ADAPTIVE_RECEIVE] != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_gathers_nothing_and_a_name_without_a_device_is_an_error() {
        assert_eq!(
            coalescing("lo").unwrap_err().raw_os_error(),
            Some(libc::EOPNOTSUPP)
        );
        assert_eq!(
            coalescing("nothing-here").unwrap_err().raw_os_error(),
            Some(libc::ENODEV)
        );
        assert_eq!(
            coalescing("a-name-of-sixteen").unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
