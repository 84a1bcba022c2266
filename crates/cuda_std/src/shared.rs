//! Shared memory.
//!
//! Rust has no syntax for it: [`static_shared!`](crate::static_shared) and
//! [`dynamic_shared!`](crate::dynamic_shared) declare it in the kernels crate's own assembly (that
//! of a dependency would be lost), and give its address in the shared window.

use core::arch::asm;

use crate::quad;

/// Declares `$bytes` of static shared memory once for the crate, and a function `$function` that
/// gives its address in the shared window.
#[macro_export]
macro_rules! static_shared {
    ($function:ident, $name:literal, $bytes:literal) => {
        core::arch::global_asm!(concat!(
            ".visible .shared .align 16 .b8 ",
            $name,
            "[",
            $bytes,
            "];"
        ));
        $crate::shared_address!($function, $name);
    };
}

/// Declares the launch's dynamic shared memory, and a function `$function` that gives its address
/// in the shared window.
#[macro_export]
macro_rules! dynamic_shared {
    ($function:ident, $name:literal) => {
        core::arch::global_asm!(concat!(".extern .shared .align 128 .b8 ", $name, "[];"));
        $crate::shared_address!($function, $name);
    };
}

/// A function that gives the address of a variable in shared memory.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_address {
    ($function:ident, $name:literal) => {
        #[inline(always)]
        fn $function() -> u32 {
            let address: u32;
            // SAFETY: takes the address of a variable that the crate declares.
            unsafe {
                core::arch::asm!(concat!("mov.u32 {}, ", $name, ";"), out(reg32) address,
                    options(pure, nomem, nostack));
            }
            address
        }
    };
}

/// Loads one f32.
///
/// # Safety
///
/// `address` must lie in the block's shared memory, 4-byte aligned.
#[inline(always)]
pub unsafe fn load_f32(address: u32) -> f32 {
    let a: f32;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ld.shared.f32 {}, [{}];", out(reg32) a, in(reg32) address, options(nostack));
    }
    a
}

/// Stores one f32.
///
/// # Safety
///
/// `address` must lie in the block's shared memory, 4-byte aligned; no other thread touches it
/// before the next barrier.
#[inline(always)]
pub unsafe fn store_f32(address: u32, value: f32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.shared.f32 [{}], {};", in(reg32) address, in(reg32) value, options(nostack));
    }
}

/// Loads one f64.
///
/// # Safety
///
/// `address` must lie in the block's shared memory, 8-byte aligned.
#[inline(always)]
pub unsafe fn load_f64(address: u32) -> f64 {
    let a: f64;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ld.shared.f64 {}, [{}];", out(reg64) a, in(reg32) address, options(nostack));
    }
    a
}

/// Stores one f64.
///
/// # Safety
///
/// `address` must lie in the block's shared memory, 8-byte aligned; no other thread touches it
/// before the next barrier.
#[inline(always)]
pub unsafe fn store_f64(address: u32, value: f64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.shared.f64 [{}], {};", in(reg32) address, in(reg64) value, options(nostack));
    }
}

/// Loads 16 bytes.
///
/// # Safety
///
/// `address` must lie in the block's shared memory, 16-byte aligned.
#[inline(always)]
pub unsafe fn load(address: u32) -> [u32; 4] {
    // SAFETY: the caller's promise.
    unsafe { quad::load!("ld.shared.v4.u32", reg32 address) }
}

/// As [`load`], or zeros and no access if `skip`.
///
/// # Safety
///
/// As for [`load`], unless `skip`.
#[inline(always)]
pub unsafe fn load_unless(skip: bool, address: u32) -> [u32; 4] {
    // SAFETY: the caller's promise.
    unsafe { quad::load_unless!("ld.shared.v4.u32", skip, reg32 address) }
}

/// Stores 16 bytes.
///
/// # Safety
///
/// `address` must lie in the block's shared memory, 16-byte aligned; no other thread touches it
/// before the next barrier.
#[inline(always)]
pub unsafe fn store(address: u32, value: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe { quad::store!("st.shared.v4.u32", reg32 address, value) }
}
