//! Arithmetic and conversions, each IEEE-exact: correctly rounded, subnormals kept.
//!
//! None of these is an approximate form, so a CPU that does the same operations in the same order
//! gets the same bits.

#[cfg(target_feature = "sm_90")]
use core::arch::asm;

unsafe extern "unadjusted" {
    #[link_name = "llvm.fma.f32"]
    fn llvm_fma_f32(a: f32, b: f32, c: f32) -> f32;
    #[link_name = "llvm.sqrt.f32"]
    fn llvm_sqrt_f32(a: f32) -> f32;
    #[link_name = "llvm.fma.f64"]
    fn llvm_fma_f64(a: f64, b: f64, c: f64) -> f64;
    #[link_name = "llvm.sqrt.f64"]
    fn llvm_sqrt_f64(a: f64) -> f64;
}

/// `a * b + c` with one rounding (`fma.rn.f32`).
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    // SAFETY: pure arithmetic; no preconditions.
    unsafe { llvm_fma_f32(a, b, c) }
}

/// Square root, correctly rounded (`sqrt.rn.f32`).
#[inline(always)]
pub fn sqrt(a: f32) -> f32 {
    // SAFETY: pure arithmetic; no preconditions.
    unsafe { llvm_sqrt_f32(a) }
}

/// `a * b + c` with one rounding (`fma.rn.f64`).
#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    // SAFETY: pure arithmetic; no preconditions.
    unsafe { llvm_fma_f64(a, b, c) }
}

/// Square root, correctly rounded (`sqrt.rn.f64`).
#[inline(always)]
pub fn sqrt_f64(a: f64) -> f64 {
    // SAFETY: pure arithmetic; no preconditions.
    unsafe { llvm_sqrt_f64(a) }
}

/// The value of the binary16 number with these bits (exact).
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    f16::from_bits(bits) as f32
}

/// Bits of the binary16 numbers nearest to `low` and `high`, `low` in the lower half; ties to even,
/// NaN becomes 0x7FFF. One instruction where two conversions would take eight times as long.
#[cfg(target_feature = "sm_90")]
#[inline(always)]
pub fn f32_to_f16x2(low: f32, high: f32) -> u32 {
    let bits: u32;
    // SAFETY: a register-to-register conversion.
    unsafe {
        asm!(
            "cvt.rn.f16x2.f32 {}, {}, {};",
            out(reg32) bits, in(reg32) high, in(reg32) low, options(pure, nomem, nostack)
        );
    }
    bits
}

/// Bits of the binary16 numbers nearest to `low` and `high`, `low` in the lower half; ties to even,
/// NaN becomes 0x7FFF.
#[cfg(not(target_feature = "sm_90"))]
#[inline(always)]
pub fn f32_to_f16x2(low: f32, high: f32) -> u32 {
    let [low, high] = [low, high].map(|value| (value as f16).to_bits() as u32);
    low | high << 16
}

/// The value of the bfloat16 number with these bits (exact).
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// Bits of the bfloat16 numbers nearest to `low` and `high`, `low` in the lower half; ties to even,
/// NaN becomes 0x7FFF.
#[cfg(target_feature = "sm_90")]
#[inline(always)]
pub fn f32_to_bf16x2(low: f32, high: f32) -> u32 {
    let bits: u32;
    // SAFETY: a register-to-register conversion.
    unsafe {
        asm!(
            "cvt.rn.bf16x2.f32 {}, {}, {};",
            out(reg32) bits, in(reg32) high, in(reg32) low, options(pure, nomem, nostack)
        );
    }
    bits
}

/// Bits of the bfloat16 numbers nearest to `low` and `high`, `low` in the lower half; ties to even,
/// NaN becomes 0x7FFF.
#[cfg(not(target_feature = "sm_90"))]
#[inline(always)]
pub fn f32_to_bf16x2(low: f32, high: f32) -> u32 {
    let [low, high] = [low, high].map(|value| {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
        if value != value { 0x7FFF } else { rounded }
    });
    low | high << 16
}
