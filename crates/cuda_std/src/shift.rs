//! Sixteen bytes out of thirty-two, for what lies across a 16-byte boundary.

use core::arch::asm;

/// Bytes `bytes` (less than 16, and a multiple of the size of `T`) to `bytes` + 15 of `low` and
/// `high` side by side.
#[inline(always)]
pub fn shift<T>(low: [u32; 4], high: [u32; 4], bytes: u32) -> [u32; 4] {
    let ([a, b, c, d], [e, f, g, h]) = (low, high);
    let pick = |by: u32, near: u32, far: u32| if bytes & by == 0 { near } else { far };
    let two = |near, far| pick(8, near, far);
    let [a, b, c, d, e, f] = [two(a, c), two(b, d), two(c, e), two(d, f), two(e, g), two(f, h)];
    let one = |near, far| pick(4, near, far);
    let [a, b, c, d, e] = [one(a, b), one(b, c), one(c, d), one(d, e), one(e, f)];
    if size_of::<T>() >= 4 {
        return [a, b, c, d];
    }
    let bits = bytes % 4 * 8;
    [funnel(a, b, bits), funnel(b, c, bits), funnel(c, d, bits), funnel(d, e, bits)]
}

/// Bits `bits` (modulo 32) to `bits` + 31 of `low` and `high` side by side (`shf.r.wrap.b32`).
#[inline(always)]
fn funnel(low: u32, high: u32, bits: u32) -> u32 {
    let word;
    // SAFETY: registers alone.
    unsafe {
        asm!("shf.r.wrap.b32 {}, {}, {}, {};", out(reg32) word, in(reg32) low, in(reg32) high,
            in(reg32) bits, options(pure, nomem, nostack));
    }
    word
}
