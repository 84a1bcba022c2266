//! The storage types, and the 16 bytes in which they travel.

use core::ops::IndexMut;

use half::{bf16, f16};

use crate::arch;
use crate::real::Real;

/// Sixteen bytes of a row: what a thread loads or stores at once.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pack(pub [u32; 4]);

/// The values of one [`Pack`].
pub trait Lanes<T>: Copy + IndexMut<usize, Output = T> {
    /// All zero.
    const ZERO: Self;

    /// The sum of the lanes, as a tree of halves: the order is part of the kernels' contract.
    fn tree_sum(self) -> T;
}

impl Lanes<f64> for [f64; 2] {
    const ZERO: Self = [0.0; 2];

    #[inline(always)]
    fn tree_sum(self) -> f64 {
        self[0] + self[1]
    }
}

impl Lanes<f32> for [f32; 4] {
    const ZERO: Self = [0.0; 4];

    #[inline(always)]
    fn tree_sum(self) -> f32 {
        (self[0] + self[2]) + (self[1] + self[3])
    }
}

impl Lanes<f32> for [f32; 8] {
    const ZERO: Self = [0.0; 8];

    #[inline(always)]
    fn tree_sum(self) -> f32 {
        [self[0] + self[4], self[1] + self[5], self[2] + self[6], self[3] + self[7]].tree_sum()
    }
}

/// A storage type of x, y, w, b and their gradients.
pub trait Element: Copy + Send + Sync + 'static {
    /// What is calculated in.
    type Real: Real;
    /// The values of a pack.
    type Lanes: Lanes<Self::Real>;
    /// Elements in a pack.
    const LANES: usize;

    /// The elements of a pack, exactly.
    fn unpack(pack: Pack) -> Self::Lanes;
    /// A pack of the elements nearest to `lanes`, ties to even.
    fn pack(lanes: Self::Lanes) -> Pack;
}

/// A storage type of w and b beside rows of `E`: E itself, or f32.
pub trait Params<E: Element>: Element<Real = E::Real> {
    /// Packs of parameters for one pack of a row: 1 or 2.
    const PACKS: usize;
    /// Whether the product of a parameter and an element is always a Real (but for its exponent).
    const EXACT_PRODUCTS: bool;

    /// The parameters of one pack of a row, from [`Params::PACKS`] packs.
    fn widen(packs: [Pack; 2]) -> E::Lanes;
}

impl<E: Element> Params<E> for E {
    const PACKS: usize = 1;
    // 11 or 8 bits by as many, in 24.
    const EXACT_PRODUCTS: bool = size_of::<E>() == 2;

    #[inline(always)]
    fn widen([pack, _]: [Pack; 2]) -> E::Lanes {
        E::unpack(pack)
    }
}

impl Element for f64 {
    type Real = f64;
    type Lanes = [f64; 2];
    const LANES: usize = 2;

    #[inline(always)]
    fn unpack(pack: Pack) -> [f64; 2] {
        let [a, b, c, d] = pack.0.map(|word| word as u64);
        [f64::from_bits(a | b << 32), f64::from_bits(c | d << 32)]
    }

    #[inline(always)]
    fn pack(lanes: [f64; 2]) -> Pack {
        let [a, b] = lanes.map(f64::to_bits);
        Pack([a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32])
    }
}

impl Element for f32 {
    type Real = f32;
    type Lanes = [f32; 4];
    const LANES: usize = 4;

    #[inline(always)]
    fn unpack(pack: Pack) -> [f32; 4] {
        pack.0.map(f32::from_bits)
    }

    #[inline(always)]
    fn pack(lanes: [f32; 4]) -> Pack {
        Pack(lanes.map(f32::to_bits))
    }
}

/// The two 16-bit types differ in their conversions alone.
macro_rules! half_element {
    ($type:ident, $widen:path, $narrow:path) => {
        impl Element for $type {
            type Real = f32;
            type Lanes = [f32; 8];
            const LANES: usize = 8;

            #[inline(always)]
            fn unpack(pack: Pack) -> [f32; 8] {
                let mut bits = [0; 8];
                for (lane, bits) in bits.iter_mut().enumerate() {
                    *bits = (pack.0[lane / 2] >> (lane % 2 * 16)) as u16;
                }
                $widen(bits)
            }

            #[inline(always)]
            fn pack(lanes: [f32; 8]) -> Pack {
                Pack($narrow(lanes))
            }
        }

        impl Params<$type> for f32 {
            const PACKS: usize = 2;
            const EXACT_PRODUCTS: bool = false;

            #[inline(always)]
            fn widen([low, high]: [Pack; 2]) -> [f32; 8] {
                let ([a, b, c, d], [e, f, g, h]) = (f32::unpack(low), f32::unpack(high));
                [a, b, c, d, e, f, g, h]
            }
        }
    };
}

half_element!(f16, arch::widen_f16, arch::narrow_f16);
half_element!(bf16, arch::widen_bf16, arch::narrow_bf16);
