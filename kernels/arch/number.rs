//! Numbers on the GPU: what the operators of Rust do not say.

use cuda_std::{float, shared, warp};

// Two buffers of 8 values x 16 warps: a sum may begin while the last is still being read. A kernel
// takes the one that it uses.
cuda_std::static_shared!(sum_scratch_f32, "ferronorm_sum_f32", 1024);
cuda_std::static_shared!(sum_scratch_f64, "ferronorm_sum_f64", 2048);

/// What a machine does with numbers, beside the operators.
pub trait Number: Copy {
    /// `self * b + c` with one rounding.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// Shared address of 2 x 8 x 16 numbers for the block's sums.
    fn scratch() -> u32;
    /// The number of the lane whose index differs by XOR with `lane_mask`.
    ///
    /// # Safety
    ///
    /// All lanes of the warp must reach this very call.
    unsafe fn shuffle_xor(self, lane_mask: u32) -> Self;
    /// The number of lane `lane`.
    ///
    /// # Safety
    ///
    /// All lanes of the warp must reach this very call.
    unsafe fn shuffle(self, lane: u32) -> Self;
    /// Loads from shared memory.
    ///
    /// # Safety
    ///
    /// `address` must lie there, aligned.
    unsafe fn load_shared(address: u32) -> Self;
    /// Stores to shared memory.
    ///
    /// # Safety
    ///
    /// `address` must lie there, aligned; no other thread touches it before the next barrier.
    unsafe fn store_shared(address: u32, value: Self);
}

macro_rules! number {
    ($type:ident, $fma:ident, $sqrt:ident, $scratch:ident, $xor:ident, $shuffle:ident, $load:ident, $store:ident) => {
        // Every unsafe block passes a promise of the caller on.
        impl Number for $type {
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                float::$fma(self, b, c)
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                float::$sqrt(self)
            }

            #[inline(always)]
            fn scratch() -> u32 {
                $scratch()
            }

            #[inline(always)]
            unsafe fn shuffle_xor(self, lane_mask: u32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { warp::$xor(self, lane_mask) }
            }

            #[inline(always)]
            unsafe fn shuffle(self, lane: u32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { warp::$shuffle(self, lane) }
            }

            #[inline(always)]
            unsafe fn load_shared(address: u32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { shared::$load(address) }
            }

            #[inline(always)]
            unsafe fn store_shared(address: u32, value: Self) {
                // SAFETY: the caller's promise.
                unsafe { shared::$store(address, value) }
            }
        }
    };
}

number!(f32, fma, sqrt, sum_scratch_f32, shuffle_xor, shuffle, load_f32, store_f32);
number!(f64, fma_f64, sqrt_f64, sum_scratch_f64, shuffle_xor_f64, shuffle_f64, load_f64, store_f64);

/// The values of eight binary16 numbers.
#[inline(always)]
pub fn widen_f16(bits: [u16; 8]) -> [f32; 8] {
    bits.map(float::f16_to_f32)
}

/// The eight binary16 numbers nearest to `values`, two in a word.
#[inline(always)]
pub fn narrow_f16([a, b, c, d, e, f, g, h]: [f32; 8]) -> [u32; 4] {
    [(a, b), (c, d), (e, f), (g, h)].map(|(low, high)| float::f32_to_f16x2(low, high))
}

/// The values of eight bfloat16 numbers.
#[inline(always)]
pub fn widen_bf16(bits: [u16; 8]) -> [f32; 8] {
    bits.map(float::bf16_to_f32)
}

/// The eight bfloat16 numbers nearest to `values`, two in a word.
#[inline(always)]
pub fn narrow_bf16([a, b, c, d, e, f, g, h]: [f32; 8]) -> [u32; 4] {
    [(a, b), (c, d), (e, f), (g, h)].map(|(low, high)| float::f32_to_bf16x2(low, high))
}
