//! Global memory, 16 bytes at a time or one element at a time.
//!
//! The 16-byte forms are one instruction (`ld.global.v4`, `st.global.v4`), which rustc does not
//! make of a 16-byte struct by itself. Pointers are generic; CUDA maps global memory to the same
//! addresses in the generic window.

#![allow(named_asm_labels, reason = "braces in PTX give labels a scope")]

use core::arch::asm;

use crate::quad;

/// Loads 16 bytes through the read-only cache (`ld.global.nc.v4.u32`).
///
/// # Safety
///
/// `ptr` must be 16-byte aligned, readable for 16 bytes, and not written during the launch.
#[inline(always)]
pub unsafe fn load_nc(ptr: *const u8) -> [u32; 4] {
    // SAFETY: the caller's promise.
    unsafe { quad::load!("ld.global.nc.v4.u32", reg64 ptr, readonly) }
}

/// As [`load_nc`], or zeros and no access if `skip`.
///
/// # Safety
///
/// As for [`load_nc`], unless `skip`.
#[inline(always)]
pub unsafe fn load_nc_unless(skip: bool, ptr: *const u8) -> [u32; 4] {
    // SAFETY: the caller's promise.
    unsafe { quad::load_unless!("ld.global.nc.v4.u32", skip, reg64 ptr, readonly) }
}

/// Loads those of eight 2-byte elements of which the bit is set in `elements`; the others are zero.
///
/// # Safety
///
/// `ptr` must be 2-byte aligned, and those elements readable, and not written by another thread during
/// the launch.
#[inline(always)]
pub unsafe fn gather_nc_u16(ptr: *const u16, elements: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            ".reg .b32 bit;",
            ".reg .b16 h<8>;",
            "mov.b32 {{h0, h1}}, 0;",
            "mov.b32 {{h2, h3}}, 0;",
            "mov.b32 {{h4, h5}}, 0;",
            "mov.b32 {{h6, h7}}, 0;",
            "setp.eq.u32 p, {elements}, 0;",
            "@p bra none;",
            "and.b32 bit, {elements}, 1;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b16 h0, [{ptr}];",
            "and.b32 bit, {elements}, 2;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b16 h1, [{ptr} + 2];",
            "and.b32 bit, {elements}, 4;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b16 h2, [{ptr} + 4];",
            "and.b32 bit, {elements}, 8;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b16 h3, [{ptr} + 6];",
            "and.b32 bit, {elements}, 16;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b16 h4, [{ptr} + 8];",
            "and.b32 bit, {elements}, 32;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b16 h5, [{ptr} + 10];",
            "and.b32 bit, {elements}, 64;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b16 h6, [{ptr} + 12];",
            "and.b32 bit, {elements}, 128;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b16 h7, [{ptr} + 14];",
            "none:",
            "mov.b32 {a}, {{h0, h1}};",
            "mov.b32 {b}, {{h2, h3}};",
            "mov.b32 {c}, {{h4, h5}};",
            "mov.b32 {d}, {{h6, h7}};",
            "}}",
            elements = in(reg32) elements, ptr = in(reg64) ptr,
            a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
            options(readonly, nostack));
    }
    [a, b, c, d]
}

/// Loads those of four 4-byte elements of which the bit is set in `elements`; the others are zero.
///
/// # Safety
///
/// `ptr` must be 4-byte aligned, and those elements readable, and not written by another thread during
/// the launch.
#[inline(always)]
pub unsafe fn gather_nc_u32(ptr: *const u32, elements: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            ".reg .b32 bit;",
            "mov.b32 {a}, 0;",
            "mov.b32 {b}, 0;",
            "mov.b32 {c}, 0;",
            "mov.b32 {d}, 0;",
            "setp.eq.u32 p, {elements}, 0;",
            "@p bra none;",
            "and.b32 bit, {elements}, 1;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b32 {a}, [{ptr}];",
            "and.b32 bit, {elements}, 2;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b32 {b}, [{ptr} + 4];",
            "and.b32 bit, {elements}, 4;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b32 {c}, [{ptr} + 8];",
            "and.b32 bit, {elements}, 8;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b32 {d}, [{ptr} + 12];",
            "none:",
            "}}",
            elements = in(reg32) elements, ptr = in(reg64) ptr,
            a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
            options(readonly, nostack));
    }
    [a, b, c, d]
}

/// Loads those of two 8-byte elements of which the bit is set in `elements`; the others are zero.
///
/// # Safety
///
/// `ptr` must be 8-byte aligned, and those elements readable, and not written by another thread during
/// the launch.
#[inline(always)]
pub unsafe fn gather_nc_u64(ptr: *const u64, elements: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            ".reg .b32 bit;",
            ".reg .b64 q<2>;",
            "mov.b64 q0, 0;",
            "mov.b64 q1, 0;",
            "setp.eq.u32 p, {elements}, 0;",
            "@p bra none;",
            "and.b32 bit, {elements}, 1;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b64 q0, [{ptr}];",
            "and.b32 bit, {elements}, 2;",
            "setp.ne.u32 p, bit, 0;",
            "@p ld.global.nc.b64 q1, [{ptr} + 8];",
            "none:",
            "mov.b64 {{{a}, {b}}}, q0;",
            "mov.b64 {{{c}, {d}}}, q1;",
            "}}",
            elements = in(reg32) elements, ptr = in(reg64) ptr,
            a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
            options(readonly, nostack));
    }
    [a, b, c, d]
}

/// Stores those of eight 2-byte elements of which the bit is set in `elements`.
///
/// # Safety
///
/// `ptr` must be 2-byte aligned, and those elements writable, by this thread alone.
#[inline(always)]
pub unsafe fn scatter_u16(ptr: *mut u16, value: [u32; 4], elements: u32) {
    let [a, b, c, d] = value;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            ".reg .b32 bit;",
            ".reg .b16 h<8>;",
            "setp.eq.u32 p, {elements}, 0;",
            "@p bra none;",
            "mov.b32 {{h0, h1}}, {a};",
            "mov.b32 {{h2, h3}}, {b};",
            "mov.b32 {{h4, h5}}, {c};",
            "mov.b32 {{h6, h7}}, {d};",
            "and.b32 bit, {elements}, 1;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b16 [{ptr}], h0;",
            "and.b32 bit, {elements}, 2;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b16 [{ptr} + 2], h1;",
            "and.b32 bit, {elements}, 4;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b16 [{ptr} + 4], h2;",
            "and.b32 bit, {elements}, 8;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b16 [{ptr} + 6], h3;",
            "and.b32 bit, {elements}, 16;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b16 [{ptr} + 8], h4;",
            "and.b32 bit, {elements}, 32;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b16 [{ptr} + 10], h5;",
            "and.b32 bit, {elements}, 64;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b16 [{ptr} + 12], h6;",
            "and.b32 bit, {elements}, 128;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b16 [{ptr} + 14], h7;",
            "none:",
            "}}",
            elements = in(reg32) elements, ptr = in(reg64) ptr,
            a = in(reg32) a, b = in(reg32) b, c = in(reg32) c, d = in(reg32) d,
            options(nostack));
    }
}

/// Stores those of four 4-byte elements of which the bit is set in `elements`.
///
/// # Safety
///
/// `ptr` must be 4-byte aligned, and those elements writable, by this thread alone.
#[inline(always)]
pub unsafe fn scatter_u32(ptr: *mut u32, value: [u32; 4], elements: u32) {
    let [a, b, c, d] = value;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            ".reg .b32 bit;",
            "setp.eq.u32 p, {elements}, 0;",
            "@p bra none;",
            "and.b32 bit, {elements}, 1;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b32 [{ptr}], {a};",
            "and.b32 bit, {elements}, 2;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b32 [{ptr} + 4], {b};",
            "and.b32 bit, {elements}, 4;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b32 [{ptr} + 8], {c};",
            "and.b32 bit, {elements}, 8;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b32 [{ptr} + 12], {d};",
            "none:",
            "}}",
            elements = in(reg32) elements, ptr = in(reg64) ptr,
            a = in(reg32) a, b = in(reg32) b, c = in(reg32) c, d = in(reg32) d,
            options(nostack));
    }
}

/// Stores those of two 8-byte elements of which the bit is set in `elements`.
///
/// # Safety
///
/// `ptr` must be 8-byte aligned, and those elements writable, by this thread alone.
#[inline(always)]
pub unsafe fn scatter_u64(ptr: *mut u64, value: [u32; 4], elements: u32) {
    let [a, b, c, d] = value;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            ".reg .b32 bit;",
            ".reg .b64 q<2>;",
            "setp.eq.u32 p, {elements}, 0;",
            "@p bra none;",
            "mov.b64 q0, {{{a}, {b}}};",
            "mov.b64 q1, {{{c}, {d}}};",
            "and.b32 bit, {elements}, 1;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b64 [{ptr}], q0;",
            "and.b32 bit, {elements}, 2;",
            "setp.ne.u32 p, bit, 0;",
            "@p st.global.b64 [{ptr} + 8], q1;",
            "none:",
            "}}",
            elements = in(reg32) elements, ptr = in(reg64) ptr,
            a = in(reg32) a, b = in(reg32) b, c = in(reg32) c, d = in(reg32) d,
            options(nostack));
    }
}

/// Stores 16 bytes (`st.global.v4.u32`).
///
/// # Safety
///
/// `ptr` must be 16-byte aligned and writable for 16 bytes, by this thread alone.
#[inline(always)]
pub unsafe fn store(ptr: *mut u8, value: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe { quad::store!("st.global.v4.u32", reg64 ptr, value) }
}

/// As [`store`], or nothing if `skip`.
///
/// # Safety
///
/// As for [`store`], unless `skip`.
#[inline(always)]
pub unsafe fn store_unless(skip: bool, ptr: *mut u8, value: [u32; 4]) {
    let [a, b, c, d] = value;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred skip;",
            "setp.ne.u32 skip, {}, 0;",
            "@!skip st.global.v4.u32 [{}], {{{}, {}, {}, {}}};",
            "}}",
            in(reg32) skip as u32, in(reg64) ptr,
            in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d, options(nostack));
    }
}

/// Loads 16 bytes that other blocks of the same launch may have written, past the L1 cache
/// (`ld.global.cg.v4.u32`), or gives zeros and does not touch memory if `skip`.
///
/// # Safety
///
/// Unless `skip`, `ptr` must be 16-byte aligned and readable for 16 bytes, and the writes be ordered
/// before this read by a lock or a launch.
#[inline(always)]
pub unsafe fn load_cg_unless(skip: bool, ptr: *const u8) -> [u32; 4] {
    // SAFETY: the caller's promise. Not `readonly`: the compiler must not move it over a lock.
    unsafe { quad::load_unless!("ld.global.cg.v4.u32", skip, reg64 ptr) }
}

/// Stores 16 bytes to the L2 cache, for other blocks to read (`st.global.cg.v4.u32`).
///
/// # Safety
///
/// `ptr` must be 16-byte aligned and writable for 16 bytes, by this thread alone.
#[inline(always)]
pub unsafe fn store_cg(ptr: *mut u8, value: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe { quad::store!("st.global.cg.v4.u32", reg64 ptr, value) }
}
