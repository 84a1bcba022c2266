//! Shared memory.
//!
//! Rust has no syntax for it: [`static_shared!`](crate::static_shared) and
//! [`dynamic_shared!`](crate::dynamic_shared) declare it in the kernels crate's own assembly (that
//! of a dependency would be lost), and give its address in the shared window.

use core::arch::asm;

/// Declares `$bytes` of static shared memory once for the crate, and a function `$function` that
/// gives its address in the shared window.
#[macro_export]
macro_rules! static_shared {
    ($function:ident, $name:literal, $bytes:literal) => {
        core::arch::global_asm!(concat!(".visible .shared .align 16 .b8 ", $name, "[", $bytes, "];"));

        #[inline(always)]
        fn $function() -> u32 {
            let address: u32;
            // SAFETY: takes the address of a variable declared above.
            unsafe {
                core::arch::asm!(concat!("mov.u32 {}, ", $name, ";"), out(reg32) address,
                    options(pure, nomem, nostack));
            }
            address
        }
    };
}

/// Declares the launch's dynamic shared memory, and a function `$function` that gives its address
/// in the shared window.
#[macro_export]
macro_rules! dynamic_shared {
    ($function:ident, $name:literal) => {
        core::arch::global_asm!(concat!(".extern .shared .align 128 .b8 ", $name, "[];"));

        #[inline(always)]
        fn $function() -> u32 {
            let address: u32;
            // SAFETY: takes the address of a variable declared above.
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

/// Loads 16 bytes.
///
/// # Safety
///
/// `address` must lie in the block's shared memory, 16-byte aligned.
#[inline(always)]
pub unsafe fn load(address: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ld.shared.v4.u32 {{{}, {}, {}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) address,
            options(nostack));
    }
    [a, b, c, d]
}

/// Loads 16 bytes, or gives zeros and does not touch memory if `skip` (a predicated load: no branch
/// for the compiler to schedule around).
///
/// # Safety
///
/// As for [`load`], unless `skip`.
#[inline(always)]
pub unsafe fn load_unless(skip: bool, address: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred skip;",
            "setp.ne.u32 skip, {skip}, 0;",
            "mov.u32 {a}, 0;",
            "mov.u32 {b}, 0;",
            "mov.u32 {c}, 0;",
            "mov.u32 {d}, 0;",
            "@!skip ld.shared.v4.u32 {{{a}, {b}, {c}, {d}}}, [{address}];",
            "}}",
            skip = in(reg32) skip as u32, address = in(reg32) address,
            a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
            options(nostack));
    }
    [a, b, c, d]
}

/// Stores 16 bytes.
///
/// # Safety
///
/// `address` must lie in the block's shared memory, 16-byte aligned; no other thread touches it
/// before the next barrier.
#[inline(always)]
pub unsafe fn store(address: u32, value: [u32; 4]) {
    let [a, b, c, d] = value;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.shared.v4.u32 [{}], {{{}, {}, {}, {}}};",
            in(reg32) address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d, options(nostack));
    }
}
