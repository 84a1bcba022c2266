//! Exchange of registers within a warp.

/// Threads in a warp.
pub const WARP: u32 = 32;

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.shfl.sync.bfly.f32"]
    fn shfl_bfly_f32(mask: i32, value: f32, lane_mask: i32, clamp: i32) -> f32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.f32"]
    fn shfl_idx_f32(mask: i32, value: f32, lane: i32, clamp: i32) -> f32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    fn shfl_down_i32(mask: i32, value: i32, distance: i32, clamp: i32) -> i32;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp_sync(mask: i32);
}

/// Waits for all lanes of the warp, and orders their memory accesses before it before those after it
/// (`bar.warp.sync`).
///
/// # Safety
///
/// All 32 lanes of the warp must reach this very call.
#[inline(always)]
pub unsafe fn sync() {
    // SAFETY: the caller's promise; mask -1 names all lanes.
    unsafe { bar_warp_sync(-1) }
}

/// The `value` of the lane whose index differs from this one's by XOR with `lane_mask`
/// (`shfl.sync.bfly`).
///
/// # Safety
///
/// All 32 lanes of the warp must reach this very call.
#[inline(always)]
pub unsafe fn shuffle_xor(value: f32, lane_mask: u32) -> f32 {
    // SAFETY: the caller's promise; mask -1 names all lanes, clamp 31 is a whole warp.
    unsafe { shfl_bfly_f32(-1, value, lane_mask as i32, 31) }
}

/// The `value` of lane `lane` (`shfl.sync.idx`).
///
/// # Safety
///
/// All 32 lanes of the warp must reach this very call.
#[inline(always)]
pub unsafe fn shuffle(value: f32, lane: u32) -> f32 {
    // SAFETY: the caller's promise; mask -1 names all lanes, clamp 31 is a whole warp.
    unsafe { shfl_idx_f32(-1, value, lane as i32, 31) }
}

/// The `value` of the next lane, or for the last lane its own (`shfl.sync.down`).
///
/// # Safety
///
/// All 32 lanes of the warp must reach this very call.
#[inline(always)]
pub unsafe fn next_lane(value: u32) -> u32 {
    // SAFETY: the caller's promise; mask -1 names all lanes, clamp 31 is a whole warp.
    unsafe { shfl_down_i32(-1, value as i32, 1, 31) as u32 }
}

/// [`shuffle_xor`] of a 64-bit number: its halves, one after the other.
///
/// # Safety
///
/// All 32 lanes of the warp must reach this very call.
#[inline(always)]
pub unsafe fn shuffle_xor_f64(value: f64, lane_mask: u32) -> f64 {
    // SAFETY: the caller's promise.
    halves(value, |half| unsafe { shuffle_xor(half, lane_mask) })
}

/// [`shuffle`] of a 64-bit number: its halves, one after the other.
///
/// # Safety
///
/// All 32 lanes of the warp must reach this very call.
#[inline(always)]
pub unsafe fn shuffle_f64(value: f64, lane: u32) -> f64 {
    // SAFETY: the caller's promise.
    halves(value, |half| unsafe { shuffle(half, lane) })
}

/// `exchange` on either half of `value`. A shuffle moves bits, whatever they mean.
#[inline(always)]
fn halves(value: f64, exchange: impl Fn(f32) -> f32) -> f64 {
    let bits = value.to_bits();
    let low = exchange(f32::from_bits(bits as u32)).to_bits();
    let high = exchange(f32::from_bits((bits >> 32) as u32)).to_bits();
    f64::from_bits(low as u64 | (high as u64) << 32)
}
