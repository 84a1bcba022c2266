//! Bulk copies from global to shared memory, counted by an `mbarrier` (sm_90).
//!
//! One thread asks for a whole row; the copy engine moves it while the block computes, and costs
//! no registers. PTX ISA, "cp.async.bulk" and "mbarrier".

use core::arch::asm;

/// Makes the 8 bytes at `barrier` an mbarrier that `arrivals` arrivals complete.
///
/// # Safety
///
/// `barrier` must be 8-byte aligned shared memory; one thread does this, then
/// [`fence_init`], then a block barrier, before anyone uses it.
#[inline(always)]
pub unsafe fn init(barrier: u32, arrivals: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mbarrier.init.shared::cta.b64 [{}], {};", in(reg32) barrier, in(reg32) arrivals,
            options(nostack));
    }
}

/// Makes initialised mbarriers visible to the copy engine.
#[inline(always)]
pub fn fence_init() {
    // SAFETY: a fence has no preconditions.
    unsafe { asm!("fence.mbarrier_init.release.cluster;", options(nostack)) }
}

/// Arrives at `barrier` once, and tells it to wait for `bytes` of copies as well.
///
/// # Safety
///
/// `barrier` must be an initialised mbarrier; the copies announced must be issued.
#[inline(always)]
pub unsafe fn arrive_expect(barrier: u32, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mbarrier.arrive.expect_tx.shared::cta.b64 _, [{}], {};",
            in(reg32) barrier, in(reg32) bytes, options(nostack));
    }
}

/// Starts a copy of `bytes` from `source` to shared memory at `target`; `barrier` counts it.
///
/// # Safety
///
/// `source`, `target` and `bytes` must be multiples of 16; `source` readable and not written
/// during the launch; nobody reads or writes `target` until the barrier's phase completes.
#[inline(always)]
pub unsafe fn copy(target: u32, source: *const u8, bytes: u32, barrier: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [{}], {}, [{}];",
            in(reg32) target, in(reg64) source, in(reg32) bytes, in(reg32) barrier,
            options(nostack));
    }
}

/// Waits until the phase of `barrier` with this `parity` (0, 1, 0, …) is complete: the copies it
/// counts can then be read.
///
/// # Safety
///
/// `barrier` must be an initialised mbarrier.
#[inline(always)]
pub unsafe fn wait(barrier: u32, parity: u32) {
    loop {
        let done: u32;
        // SAFETY: the caller's promise. `try_wait` sleeps in hardware for a while by itself.
        unsafe {
            asm!("{{",
                ".reg .pred done;",
                "mbarrier.try_wait.parity.shared::cta.b64 done, [{}], {};",
                "selp.u32 {}, 1, 0, done;",
                "}}",
                in(reg32) barrier, in(reg32) parity, out(reg32) done, options(nostack));
        }
        if done != 0 {
            return;
        }
    }
}
