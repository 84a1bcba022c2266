//! The 16-bit types on the CPU. NaN becomes 0x7FFF, as on a GPU.

use half::{bf16, f16};

/// The values of eight binary16 numbers.
#[inline(always)]
pub fn widen_f16(bits: [u16; 8]) -> [f32; 8] {
    bits.map(|bits| f16::from_bits(bits).to_f32())
}

/// The eight binary16 numbers nearest to `values`, two in a word.
#[inline(always)]
pub fn narrow_f16(values: [f32; 8]) -> [u32; 4] {
    words(values.map(|value| if value.is_nan() { 0x7FFF } else { f16::from_f32(value).to_bits() }))
}

/// The values of eight bfloat16 numbers.
#[inline(always)]
pub fn widen_bf16(bits: [u16; 8]) -> [f32; 8] {
    bits.map(|bits| f32::from_bits((bits as u32) << 16))
}

/// The eight bfloat16 numbers nearest to `values`, two in a word.
#[inline(always)]
pub fn narrow_bf16(values: [f32; 8]) -> [u32; 4] {
    words(values.map(|value| if value.is_nan() { 0x7FFF } else { bf16::from_f32(value).to_bits() }))
}

/// Two numbers to a word.
#[inline(always)]
fn words(bits: [u16; 8]) -> [u32; 4] {
    let [a, b, c, d, e, f, g, h] = bits.map(u32::from);
    [a | b << 16, c | d << 16, e | f << 16, g | h << 16]
}

/// The 16-bit types of a processor that [`super::is_wide`]: types of their own, so that no conversion
/// asks whether it is.
#[cfg(target_arch = "x86_64")]
pub mod wide {
    use core::arch::x86_64::*;
    use core::mem::transmute;

    use crate::element::{Element, Pack, Params};

    /// binary16.
    #[derive(Clone, Copy)]
    pub struct F16(#[allow(dead_code, reason = "its size is what matters")] u16);

    /// bfloat16.
    #[derive(Clone, Copy)]
    pub struct Bf16(#[allow(dead_code, reason = "its size is what matters")] u16);

    macro_rules! element {
        ($type:ident, $widen:ident, $narrow:ident) => {
            impl Element for $type {
                type Real = f32;
                type Lanes = [f32; 8];
                const LANES: usize = 8;

                #[inline(always)]
                fn unpack(pack: Pack) -> [f32; 8] {
                    // SAFETY: the type says that the processor is wide.
                    unsafe { $widen(pack.0) }
                }

                #[inline(always)]
                fn pack(lanes: [f32; 8]) -> Pack {
                    // SAFETY: the type says that the processor is wide.
                    Pack(unsafe { $narrow(lanes) })
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

    element!(F16, widen_f16, narrow_f16);
    element!(Bf16, widen_bf16, narrow_bf16);

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn widen_f16(words: [u32; 4]) -> [f32; 8] {
        // SAFETY: vectors and arrays of the same size.
        unsafe { transmute(_mm256_cvtph_ps(transmute::<[u32; 4], __m128i>(words))) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn narrow_f16(values: [f32; 8]) -> [u32; 4] {
        // SAFETY: vectors and arrays of the same size.
        let values = unsafe { transmute::<[f32; 8], __m256>(values) };
        let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
        let magnitude = _mm_and_si128(halves, _mm_set1_epi16(0x7FFF));
        let nan = _mm_cmpgt_epi16(magnitude, _mm_set1_epi16(0x7C00));
        let halves = _mm_blendv_epi8(halves, _mm_set1_epi16(0x7FFF), nan);
        // SAFETY: as above.
        unsafe { transmute(halves) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn widen_bf16(words: [u32; 4]) -> [f32; 8] {
        // SAFETY: vectors and arrays of the same size.
        unsafe {
            let halves = _mm256_cvtepu16_epi32(transmute::<[u32; 4], __m128i>(words));
            transmute(_mm256_slli_epi32::<16>(halves))
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn narrow_bf16(values: [f32; 8]) -> [u32; 4] {
        // SAFETY: vectors and arrays of the same size.
        let values = unsafe { transmute::<[f32; 8], __m256>(values) };
        let bits = _mm256_castps_si256(values);
        // Ties go to even: half of the last place, less one where that place is even.
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
        let nearest = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, half));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(values, values));
        let nearest = _mm256_blendv_epi8(nearest, _mm256_set1_epi32(0x7FFF), nan);
        let (low, high) = (_mm256_castsi256_si128(nearest), _mm256_extracti128_si256::<1>(nearest));
        // SAFETY: as above.
        unsafe { transmute(_mm_packus_epi32(low, high)) }
    }
}

/// Elsewhere, those that there are.
#[cfg(not(target_arch = "x86_64"))]
pub mod wide {
    pub use half::{bf16 as Bf16, f16 as F16};
}
