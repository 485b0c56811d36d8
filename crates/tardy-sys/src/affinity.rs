//! The CPUs on which a thread may run: sched_setaffinity(2).

use std::io;

const WORD_BITS: usize = libc::c_ulong::BITS as usize;
/// A request for all CPUs names this many CPUs: the maximum that kernels support (NR_CPUS is at
/// most 8192 on x86-64).
const CPUS_ASKED: u32 = 8192;

/// Limits thread `tid` (0: the calling one) to `cpus`.
///
/// # Errors
/// Returns EINVAL if no CPU of `cpus` is online and allowed; ESRCH if the thread does not exist;
/// EPERM for another user's thread without CAP_SYS_NICE.
pub fn set(tid: i32, cpus: &[u32]) -> io::Result<()> {
    let words = cpus
        .iter()
        .max()
        .map_or(1, |&cpu| cpu as usize / WORD_BITS + 1);
    let mut mask = vec![0 as libc::c_ulong; words];
    for &cpu in cpus {
        mask[cpu as usize / WORD_BITS] |= 1 << (cpu as usize % WORD_BITS);
    }
    let bytes = std::mem::size_of_val(mask.as_slice());
    // SAFETY: the kernel reads `bytes` bytes at the mask, which is that long.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, bytes, mask.as_ptr()) };
    crate::check(result as libc::c_int).map(drop)
}

/// Returns, in ascending order, the CPUs on which thread `tid` (0: the calling one) may run.
///
/// # Errors
/// Returns ESRCH if the thread does not exist.
pub fn get(tid: i32) -> io::Result<Vec<u32>> {
    // 1024 words hold 65536 CPUs, which is more than any kernel supports. If the mask is shorter
    // than the kernel's, the call fails with EINVAL.
    let mut mask = vec![0 as libc::c_ulong; 1024];
    let bytes = std::mem::size_of_val(mask.as_slice());
    // SAFETY: the kernel writes at most `bytes` bytes to the mask, which is that long.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, bytes, mask.as_mut_ptr()) };
    crate::check(result as libc::c_int)?;
    let is_set = |cpu: &usize| mask[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1 == 1;
    Ok((0..mask.len() * WORD_BITS)
        .filter(is_set)
        .map(|cpu| cpu as u32)
        .collect())
}

/// Returns, in ascending order, the CPUs that a thread of this process gets if it requests all
/// CPUs. If the machine has isolated CPUs (`isolcpus=`), this function returns more CPUs than
/// [`get`]. It returns only CPUs that the process's cpuset contains.
///
/// # Errors
/// Returns the errors of sched_setaffinity(2) and of starting a thread.
pub fn obtainable() -> io::Result<Vec<u32>> {
    // A new thread makes the request, so that the process's affinity does not change. The kernel
    // reduces the requested mask to the CPUs that the thread may use.
    let ask = || set(0, &(0..CPUS_ASKED).collect::<Vec<_>>()).and_then(|()| get(0));
    crate::scoped::apart(ask)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_was_put() {
        std::thread::spawn(|| {
            let first = get(0).unwrap()[0];
            set(0, &[first]).unwrap();
            assert_eq!(get(0).unwrap(), [first]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_a_thread_was_kept_off_can_be_had_and_asking_changes_nothing() {
        let all = get(0).unwrap();
        std::thread::spawn(move || {
            set(0, &all[..1]).unwrap();
            // Threads and processes inherit the restriction, as with `isolcpus=`.
            assert_eq!(obtainable().unwrap(), all);
            assert_eq!(get(0).unwrap(), all[..1]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cpus_that_do_not_exist_are_an_error() {
        assert_eq!(
            set(0, &[8000]).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        assert_eq!(get(i32::MAX).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
