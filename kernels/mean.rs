//! Division of a row's sums by N.

use crate::args::Extent;
use crate::real::Real;

/// N as a divisor.
#[derive(Clone, Copy)]
pub struct Count<T> {
    n: T,
    inverse: T,
}

impl<T: Real> Count<T> {
    /// For the rows of `extent`.
    #[inline(always)]
    pub fn new(extent: &Extent) -> Self {
        Count { n: T::of(extent.n), inverse: T::of(extent.inverse) }
    }

    /// `sum / N`, exact wherever the quotient is a T (and N is one: up to 2^24 in f32): one
    /// correction of `sum * (1 / N)` by its remainder (Markstein 1990). Three operations, where a
    /// division costs a GPU a dozen and a call. A sum that is not finite gives NaN.
    #[inline(always)]
    pub fn mean(self, sum: T) -> T {
        let rough = sum * self.inverse;
        (-rough).fma(self.n, sum).fma(self.inverse, rough)
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, Extent};

    #[test]
    fn divides_exactly_where_it_can() {
        for n in (1..5000).chain([16384, 65537, 1 << 20, 1_000_003, 1 << 24]) {
            let extent = Extent::new(1, n);
            let (single, double) = (Count::<f32>::new(&extent), Count::<f64>::new(&extent));
            for mean in [1.0, 3.0, 0.1f32, 1234.5, -7.0e-3, 1e20] {
                let sum = mean as f64 * n as f64;
                if sum as f32 as f64 == sum {
                    assert_eq!(single.mean(sum as f32), mean, "{mean} * {n} / {n}");
                    assert_eq!(double.mean(sum), mean as f64, "{mean} * {n} / {n}");
                }
            }
            let quotient = single.mean(12345.678);
            let right = 12345.678f32 / n as f32;
            assert!((quotient - right).abs() <= right * f32::EPSILON, "12345.678 / {n}");
        }
    }
}
