//! The storage types, and the 16 bytes in which they travel.

use core::ops::IndexMut;

use half::{bf16, f16};

use crate::arch;

/// Sixteen bytes of a row: what a thread loads or stores at once.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pack(pub [u32; 4]);

/// The f32 values of one [`Pack`].
pub trait Lanes: Copy + IndexMut<usize, Output = f32> {
    /// All zero.
    const ZERO: Self;

    /// The sum of the lanes, as a tree of halves: the order is part of the kernels' contract.
    fn tree_sum(self) -> f32;
}

impl Lanes for [f32; 4] {
    const ZERO: Self = [0.0; 4];

    #[inline(always)]
    fn tree_sum(self) -> f32 {
        (self[0] + self[2]) + (self[1] + self[3])
    }
}

impl Lanes for [f32; 8] {
    const ZERO: Self = [0.0; 8];

    #[inline(always)]
    fn tree_sum(self) -> f32 {
        [self[0] + self[4], self[1] + self[5], self[2] + self[6], self[3] + self[7]].tree_sum()
    }
}

/// A storage type of x, w, b, y and their gradients. Arithmetic is f32 whatever the storage.
pub trait Element: Copy + Send + Sync + 'static {
    /// The f32 values of a pack.
    type Lanes: Lanes;
    /// Elements in a pack.
    const LANES: usize;
    /// The type's name, as in the names of the PTX entry points.
    const NAME: &'static str;

    /// The elements of a pack, exactly.
    fn unpack(pack: Pack) -> Self::Lanes;
    /// A pack of the elements nearest to `lanes`, ties to even.
    fn pack(lanes: Self::Lanes) -> Pack;
}

impl Element for f32 {
    type Lanes = [f32; 4];
    const LANES: usize = 4;
    const NAME: &'static str = "f32";

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
            type Lanes = [f32; 8];
            const LANES: usize = 8;
            const NAME: &'static str = stringify!($type);

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
                let bits = $narrow(lanes);
                let mut words = [0; 4];
                for (i, word) in words.iter_mut().enumerate() {
                    *word = bits[2 * i] as u32 | (bits[2 * i + 1] as u32) << 16;
                }
                Pack(words)
            }
        }
    };
}

half_element!(f16, arch::widen_f16, arch::narrow_f16);
half_element!(bf16, arch::widen_bf16, arch::narrow_bf16);
