//! The numbers that kernels calculate with.

use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use crate::arch::Number;
use crate::args::Scalar;
use crate::element::Element;

/// f32 for storage of at most 32 bits, f64 for f64: what statistics, sums and gradients are
/// calculated in. As a storage type it is its own arithmetic.
pub trait Real:
    Element<Real = Self>
    + Number
    + Default
    + PartialOrd
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// A power of two by which rows are scaled whose squares overflow: small enough that the
    /// squares of the largest numbers can be summed, large enough that those of the smallest such
    /// rows stay normal numbers.
    const SMALL: Self;
    /// 1 / SMALL.
    const LARGE: Self;

    /// The number in this precision.
    fn of(scalar: Scalar) -> Self;
    /// Whether it is neither infinite nor NaN.
    fn finite(self) -> bool;
}

/// a + b, rounded, and what that rounds off, exactly (Knuth's two-sum).
#[inline(always)]
pub(crate) fn two_sum<T: Real>(a: T, b: T) -> (T, T) {
    let sum = a + b;
    let added = sum - a;
    (sum, (a - (sum - added)) + (b - added))
}

/// Adds `more` to `sum`, and what that rounds off to `rest`, lane by lane.
#[inline(always)]
pub(crate) fn add_lanes<T: Real>(sum: &mut T::Lanes, rest: &mut T::Lanes, more: T::Lanes) {
    for l in 0..T::LANES {
        let (total, lost) = two_sum(sum[l], more[l]);
        sum[l] = total;
        rest[l] += lost;
    }
}

/// The sums with what they rounded off; a sum that is not finite has no rest.
#[inline(always)]
pub(crate) fn total_lanes<T: Real>(mut sum: T::Lanes, rest: T::Lanes) -> T::Lanes {
    for l in 0..T::LANES {
        if sum[l].finite() {
            sum[l] += rest[l];
        }
    }
    sum
}

macro_rules! real {
    ($type:ident, $precision:ident, $small:literal) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const SMALL: Self = Self::from_bits($small << (Self::MANTISSA_DIGITS - 1));
            const LARGE: Self = 1.0 / Self::SMALL;

            #[inline(always)]
            fn of(scalar: Scalar) -> Self {
                scalar.$precision
            }

            #[inline(always)]
            fn finite(self) -> bool {
                self - self == 0.0
            }
        }
    };
}

// By their biased exponents: 2^-96 and 2^-768, three quarters of the exponent's range.
real!(f32, single, 31);
real!(f64, double, 255);

#[cfg(test)]
mod tests {
    use super::Real;

    #[test]
    fn scales_are_powers_of_two() {
        assert_eq!((f32::SMALL, f32::LARGE), (2f32.powi(-96), 2f32.powi(96)));
        assert_eq!((f64::SMALL, f64::LARGE), (2f64.powi(-768), 2f64.powi(768)));
        assert!(1e30f32.finite() && !f32::INFINITY.finite() && !f64::NAN.finite());
    }
}
