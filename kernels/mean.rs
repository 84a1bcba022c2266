//! Division of a row's sums by N.

use crate::arch;
use crate::args::Extent;

/// N as a divisor.
#[derive(Clone, Copy)]
pub struct Count {
    n: f32,
    inverse: f32,
}

impl Count {
    /// For the rows of `extent`.
    #[inline(always)]
    pub fn new(extent: Extent) -> Self {
        Count { n: extent.columns as f32, inverse: extent.inverse }
    }

    /// `sum / N`, exact wherever the quotient is an f32: one correction of `sum * (1 / N)` by its
    /// remainder (Markstein 1990). Three operations, where a division costs a GPU a dozen and a
    /// call. A sum that is not finite gives NaN.
    #[inline(always)]
    pub fn mean(self, sum: f32) -> f32 {
        let rough = sum * self.inverse;
        arch::fma(arch::fma(-rough, self.n, sum), self.inverse, rough)
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, Extent};

    #[test]
    fn divides_exactly_where_it_can() {
        for n in (1..5000).chain([16384, 65537, 1 << 20]) {
            let count = Count::new(Extent::new(1, n));
            for mean in [1.0, 3.0, 0.1f32, 1234.5, -7.0e-3, 1e20] {
                let sum = mean as f64 * n as f64;
                if sum as f32 as f64 == sum {
                    assert_eq!(count.mean(sum as f32), mean, "{mean} * {n} / {n}");
                }
            }
            let quotient = count.mean(12345.678);
            let right = 12345.678f32 / n as f32;
            assert!((quotient - right).abs() <= right * f32::EPSILON, "12345.678 / {n}");
        }
    }
}
