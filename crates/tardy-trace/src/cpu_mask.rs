//! The CPUs to which an interrupt was sent.

/// Number of CPUs in a mask. Masks of the kernel may be longer; CPUs beyond this number are
/// ignored.
pub const CPUS_MAX: u32 = 512;

/// A set of CPUs below [`CPUS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuMask {
    /// Bit N of the word with index M stands for CPU 64 * M + N.
    words: [u64; CPUS_MAX as usize / 64],
}

impl CpuMask {
    /// Reads a mask of any length, in which the first byte stands for CPUs 0 to 7.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut mask = Self::default();
        for (word, bytes) in mask.words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        mask
    }

    /// Returns the CPUs in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0_u32..).zip(self.words).flat_map(|(place, word)| {
            std::iter::successors((word != 0).then_some(word), |left| {
                Some(left & (left - 1)).filter(|&left| left != 0)
            })
            .map(move |left| 64 * place + left.trailing_zeros())
        })
    }
}

impl FromIterator<u32> for CpuMask {
    /// Ignores CPUs with numbers of [`CPUS_MAX`] and above.
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        let mut mask = Self::default();
        for cpu in cpus {
            if let Some(word) = mask.words.get_mut(cpu as usize / 64) {
                *word |= 1 << (cpu % 64);
            }
        }
        mask
    }
}
