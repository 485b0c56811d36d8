//! Work that computes in registers.

use std::hint::black_box;

/// A chain of multiplications and shifts. Each operation needs the result of the previous one, so a
/// CPU cannot do two operations at the same time.
#[derive(Debug)]
pub(super) struct Compute(u64);

impl Compute {
    pub(super) fn new() -> Self {
        Self(1)
    }

    /// Extends the chain by this many steps.
    #[inline]
    pub(super) fn step(&mut self, steps: u64) {
        let mut value = self.0;
        for _ in 0..steps {
            // One step of xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift
            // generators, scrambled", 2016). The product is the input of the next step.
            value ^= value >> 12;
            value ^= value << 25;
            value ^= value >> 27;
            value = black_box(value.wrapping_mul(0x2545_F491_4F6C_DD1D) | 1);
        }
        self.0 = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_done_and_can_be_cut_anywhere() {
        let after = |parts: &[u64]| {
            let mut compute = Compute::new();
            parts.iter().for_each(|&steps| compute.step(steps));
            compute.0
        };
        assert_eq!(after(&[1000]), after(&[1, 998, 1]));
        assert_ne!(after(&[1000]), after(&[999]));
        assert_eq!(after(&[0]), 1);
    }
}
