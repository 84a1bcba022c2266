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
    /// 1 / 2.
    const HALF: Self;
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
    /// 1 / sqrt(self): for f32 nearly always the nearest number.
    fn inverse_root(self) -> Self;
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

/// 1 / sqrt(v + v_lo), and what it rounds off: one of Newton's steps with the error of v * r * r taken
/// in twice the precision.
#[inline(always)]
pub(crate) fn rsqrt<T: Real>((v, v_lo): (T, T)) -> (T, T) {
    let r = v.inverse_root();
    let root = v * r;
    let lost = v_lo.fma(r, v.fma(r, -root));
    let error = (-root).fma(r, T::ONE) - lost * r;
    let step = r * T::HALF * error;
    // Of 0 or of what is not finite there is no error to speak of.
    if step.finite() { two_sum(r, step) } else { (r, T::ZERO) }
}

macro_rules! real {
    ($type:ident, $precision:ident, $small:literal, $inverse_root:expr) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const HALF: Self = 0.5;
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

            #[inline(always)]
            fn inverse_root(self) -> Self {
                $inverse_root(self)
            }
        }
    };
}

// By their biased exponents: 2^-96 and 2^-768, three quarters of the exponent's range.
real!(f32, single, 31, inverse_root);
real!(f64, double, 255, |v: f64| 1.0 / v.sqrt());

/// [`Real::inverse_root`] of an f32: Newton's steps from a guess that halves the exponent, the last with
/// the error of v * r * r taken in twice the precision. Nearer than a square root and a division, and no
/// slower: over all v from 1/2 to 2 those are off by 1.49 units of the last place at most, this by 0.501.
#[inline(always)]
fn inverse_root(v: f32) -> f32 {
    let bits = v.to_bits();
    // Below 2^-125, so that half of it is no normal number; infinite or NaN.
    if bits.wrapping_sub(0x0100_0000) >= 0x7E80_0000 {
        return 1.0 / Number::sqrt(v);
    }
    let half = v * 0.5;
    let mut r = f32::from_bits(0x5F37_59DF - (bits >> 1));
    for _ in 0..2 {
        r = Number::fma(Number::fma(-(half * r), r, 0.5), r, r);
    }
    let root = half * r;
    let lost = Number::fma(half, r, -root);
    Number::fma(Number::fma(-root, r, 0.5) - lost * r, r, r)
}

#[cfg(test)]
mod tests {
    use super::{Real, rsqrt};

    #[test]
    fn scales_are_powers_of_two() {
        assert_eq!((f32::SMALL, f32::LARGE), (2f32.powi(-96), 2f32.powi(96)));
        assert_eq!((f64::SMALL, f64::LARGE), (2f64.powi(-768), 2f64.powi(768)));
        assert!(1e30f32.finite() && !f32::INFINITY.finite() && !f64::NAN.finite());
    }

    #[test]
    fn inverse_roots_are_near() {
        for i in 0..400_000u32 {
            let v = f32::from_bits(0x0100_0000 + i * 0x1463);
            let right = 1.0 / (v as f64).sqrt();
            let ulp = (right as f32).next_up() as f64 - (right as f32) as f64;
            let error = (v.inverse_root() as f64 - right).abs() / ulp;
            assert!(error < 0.51, "of {v}: off by {error} units of the last place");
        }
        assert_eq!(0f32.inverse_root(), f32::INFINITY);
        assert_eq!(f32::INFINITY.inverse_root(), 0.0);
        for small in [1, 0x007F_FFFF, 0x0080_0000, 0x00FF_FFFF].map(f32::from_bits) {
            assert_eq!(small.inverse_root(), 1.0 / small.sqrt(), "of {small}");
        }
        assert!(f32::NAN.inverse_root().is_nan() && (-1f32).inverse_root().is_nan());
    }

    #[test]
    fn inverse_roots_have_twice_the_precision() {
        for i in 0..100_000u32 {
            let v = f32::from_bits(0x0080_0000 + i * 0x5123);
            let v_lo = v * (i % 7) as f32 * 1e-9;
            let (r, rest) = rsqrt((v, v_lo));
            let right = 1.0 / (v as f64 + v_lo as f64).sqrt();
            assert_eq!(r, right as f32, "of {v}");
            let error = (r as f64 + rest as f64) / right - 1.0;
            assert!(error.abs() < 1e-13, "of {v} + {v_lo}: {error}");
        }
        assert_eq!(rsqrt((0.0, 0.0)), (f32::INFINITY, 0.0));
        assert_eq!(rsqrt((f32::INFINITY, 0.0)), (0.0, 0.0));
        assert!(rsqrt((f32::NAN, 0.0)).0.is_nan() && rsqrt((-1f32, 0.0)).0.is_nan());
    }
}
