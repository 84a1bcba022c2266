//! Atomics at GPU scope.
//!
//! `core::sync::atomic` has system scope on this target, and its read-modify-write operations
//! other than compare-exchange silently drop their ordering (rust-lang/rust#136480), so the few
//! that a lock needs are written out. An atomic is one thread's work: it needs no convergence, and
//! `asm!` is right for it. None carries `nomem`: the compiler must not move memory accesses over
//! them.

use core::arch::asm;

/// If `*ptr == current`, stores `new`; gives what was there. Acquires at GPU scope
/// (`atom.acquire.gpu.global.cas.b32`).
///
/// # Safety
///
/// `ptr` must be valid in global memory and accessed by atomics only while the launch runs.
#[inline(always)]
pub unsafe fn compare_exchange_acquire(ptr: *mut u32, current: u32, new: u32) -> u32 {
    let old: u32;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("atom.acquire.gpu.global.cas.b32 {}, [{}], {}, {};",
            out(reg32) old, in(reg64) ptr, in(reg32) current, in(reg32) new, options(nostack));
    }
    old
}

/// Stores `value`, releasing at GPU scope (`st.release.gpu.global.u32`).
///
/// # Safety
///
/// As for [`compare_exchange_acquire`].
#[inline(always)]
pub unsafe fn store_release(ptr: *mut u32, value: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.release.gpu.global.u32 [{}], {};", in(reg64) ptr, in(reg32) value, options(nostack));
    }
}

/// Loads without ordering, past the L1 cache (`ld.relaxed.gpu.global.u32`).
///
/// # Safety
///
/// As for [`compare_exchange_acquire`].
#[inline(always)]
pub unsafe fn load_relaxed(ptr: *const u32) -> u32 {
    let value: u32;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ld.relaxed.gpu.global.u32 {}, [{}];", out(reg32) value, in(reg64) ptr, options(nostack));
    }
    value
}

/// Stores without ordering (`st.relaxed.gpu.global.u32`).
///
/// # Safety
///
/// As for [`compare_exchange_acquire`].
#[inline(always)]
pub unsafe fn store_relaxed(ptr: *mut u32, value: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.relaxed.gpu.global.u32 [{}], {};", in(reg64) ptr, in(reg32) value, options(nostack));
    }
}

/// Lets other warps run for some nanoseconds (`nanosleep`): what a spinning thread does between
/// two tries.
#[inline(always)]
pub fn nanosleep(nanoseconds: u32) {
    // SAFETY: delays this thread; no preconditions.
    unsafe { asm!("nanosleep.u32 {};", in(reg32) nanoseconds, options(nostack)) }
}
