//! Global memory, 16 bytes at a time or one element at a time.
//!
//! The 16-byte forms are one instruction (`ld.global.v4`, `st.global.v4`), which rustc does not
//! make of a 16-byte struct by itself. Pointers are generic; CUDA maps global memory to the same
//! addresses in the generic window.

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

/// Loads the first `valid` of eight 2-byte elements, packed as in memory; the rest is zero. One
/// access where all are valid and lie on a 16-byte boundary.
///
/// # Safety
///
/// `ptr` must be 2-byte aligned, readable for `valid` elements, and not written by another thread
/// during the launch.
#[inline(always)]
pub unsafe fn gather_nc_u16(ptr: *const u16, valid: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    let wide = valid == 8 && ptr.addr().is_multiple_of(16);
    let valid = if wide { 0 } else { valid };
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            ".reg .b16 h<8>;",
            "mov.b32 {{h0, h1}}, 0;",
            "mov.b32 {{h2, h3}}, 0;",
            "mov.b32 {{h4, h5}}, 0;",
            "mov.b32 {{h6, h7}}, 0;",
            "setp.gt.u32 p, {n}, 0;",
            "@p ld.global.nc.b16 h0, [{ptr}];",
            "setp.gt.u32 p, {n}, 1;",
            "@p ld.global.nc.b16 h1, [{ptr} + 2];",
            "setp.gt.u32 p, {n}, 2;",
            "@p ld.global.nc.b16 h2, [{ptr} + 4];",
            "setp.gt.u32 p, {n}, 3;",
            "@p ld.global.nc.b16 h3, [{ptr} + 6];",
            "setp.gt.u32 p, {n}, 4;",
            "@p ld.global.nc.b16 h4, [{ptr} + 8];",
            "setp.gt.u32 p, {n}, 5;",
            "@p ld.global.nc.b16 h5, [{ptr} + 10];",
            "setp.gt.u32 p, {n}, 6;",
            "@p ld.global.nc.b16 h6, [{ptr} + 12];",
            "setp.gt.u32 p, {n}, 7;",
            "@p ld.global.nc.b16 h7, [{ptr} + 14];",
            "mov.b32 {a}, {{h0, h1}};",
            "mov.b32 {b}, {{h2, h3}};",
            "mov.b32 {c}, {{h4, h5}};",
            "mov.b32 {d}, {{h6, h7}};",
            "setp.ne.u32 p, {wide}, 0;",
            "@p ld.global.nc.v4.u32 {{{a}, {b}, {c}, {d}}}, [{ptr}];",
            "}}",
            n = in(reg32) valid, wide = in(reg32) wide as u32, ptr = in(reg64) ptr,
            a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
            options(readonly, nostack));
    }
    [a, b, c, d]
}

/// Loads the first `valid` of four 4-byte elements, packed as in memory; the rest is zero. One
/// access where all are valid and lie on a 16-byte boundary.
///
/// # Safety
///
/// `ptr` must be 4-byte aligned, readable for `valid` elements, and not written by another thread
/// during the launch.
#[inline(always)]
pub unsafe fn gather_nc_u32(ptr: *const u32, valid: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    let wide = valid == 4 && ptr.addr().is_multiple_of(16);
    let valid = if wide { 0 } else { valid };
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            "mov.b32 {a}, 0;",
            "mov.b32 {b}, 0;",
            "mov.b32 {c}, 0;",
            "mov.b32 {d}, 0;",
            "setp.gt.u32 p, {n}, 0;",
            "@p ld.global.nc.b32 {a}, [{ptr}];",
            "setp.gt.u32 p, {n}, 1;",
            "@p ld.global.nc.b32 {b}, [{ptr} + 4];",
            "setp.gt.u32 p, {n}, 2;",
            "@p ld.global.nc.b32 {c}, [{ptr} + 8];",
            "setp.gt.u32 p, {n}, 3;",
            "@p ld.global.nc.b32 {d}, [{ptr} + 12];",
            "setp.ne.u32 p, {wide}, 0;",
            "@p ld.global.nc.v4.u32 {{{a}, {b}, {c}, {d}}}, [{ptr}];",
            "}}",
            n = in(reg32) valid, wide = in(reg32) wide as u32, ptr = in(reg64) ptr,
            a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
            options(readonly, nostack));
    }
    [a, b, c, d]
}

/// Loads the first `valid` of two 8-byte elements, packed as in memory; the rest is zero. One
/// access where all are valid and lie on a 16-byte boundary.
///
/// # Safety
///
/// `ptr` must be 8-byte aligned, readable for `valid` elements, and not written by another thread
/// during the launch.
#[inline(always)]
pub unsafe fn gather_nc_u64(ptr: *const u64, valid: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    let wide = valid == 2 && ptr.addr().is_multiple_of(16);
    let valid = if wide { 0 } else { valid };
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            ".reg .b64 q<2>;",
            "mov.b64 q0, 0;",
            "mov.b64 q1, 0;",
            "setp.gt.u32 p, {n}, 0;",
            "@p ld.global.nc.b64 q0, [{ptr}];",
            "setp.gt.u32 p, {n}, 1;",
            "@p ld.global.nc.b64 q1, [{ptr} + 8];",
            "mov.b64 {{{a}, {b}}}, q0;",
            "mov.b64 {{{c}, {d}}}, q1;",
            "setp.ne.u32 p, {wide}, 0;",
            "@p ld.global.nc.v4.u32 {{{a}, {b}, {c}, {d}}}, [{ptr}];",
            "}}",
            n = in(reg32) valid, wide = in(reg32) wide as u32, ptr = in(reg64) ptr,
            a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
            options(readonly, nostack));
    }
    [a, b, c, d]
}

/// Stores the first `valid` of eight 2-byte elements. One access where all are valid and lie on a
/// 16-byte boundary.
///
/// # Safety
///
/// `ptr` must be 2-byte aligned and writable for `valid` elements, by this thread alone.
#[inline(always)]
pub unsafe fn scatter_u16(ptr: *mut u16, value: [u32; 4], valid: u32) {
    let [a, b, c, d] = value;
    let wide = valid == 8 && ptr.addr().is_multiple_of(16);
    let valid = if wide { 0 } else { valid };
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            ".reg .b16 h<8>;",
            "mov.b32 {{h0, h1}}, {a};",
            "mov.b32 {{h2, h3}}, {b};",
            "mov.b32 {{h4, h5}}, {c};",
            "mov.b32 {{h6, h7}}, {d};",
            "setp.gt.u32 p, {n}, 0;",
            "@p st.global.b16 [{ptr}], h0;",
            "setp.gt.u32 p, {n}, 1;",
            "@p st.global.b16 [{ptr} + 2], h1;",
            "setp.gt.u32 p, {n}, 2;",
            "@p st.global.b16 [{ptr} + 4], h2;",
            "setp.gt.u32 p, {n}, 3;",
            "@p st.global.b16 [{ptr} + 6], h3;",
            "setp.gt.u32 p, {n}, 4;",
            "@p st.global.b16 [{ptr} + 8], h4;",
            "setp.gt.u32 p, {n}, 5;",
            "@p st.global.b16 [{ptr} + 10], h5;",
            "setp.gt.u32 p, {n}, 6;",
            "@p st.global.b16 [{ptr} + 12], h6;",
            "setp.gt.u32 p, {n}, 7;",
            "@p st.global.b16 [{ptr} + 14], h7;",
            "setp.ne.u32 p, {wide}, 0;",
            "@p st.global.v4.u32 [{ptr}], {{{a}, {b}, {c}, {d}}};",
            "}}",
            n = in(reg32) valid, wide = in(reg32) wide as u32, ptr = in(reg64) ptr,
            a = in(reg32) a, b = in(reg32) b, c = in(reg32) c, d = in(reg32) d,
            options(nostack));
    }
}

/// Stores the first `valid` of four 4-byte elements. One access where all are valid and lie on a
/// 16-byte boundary.
///
/// # Safety
///
/// `ptr` must be 4-byte aligned and writable for `valid` elements, by this thread alone.
#[inline(always)]
pub unsafe fn scatter_u32(ptr: *mut u32, value: [u32; 4], valid: u32) {
    let [a, b, c, d] = value;
    let wide = valid == 4 && ptr.addr().is_multiple_of(16);
    let valid = if wide { 0 } else { valid };
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            "setp.gt.u32 p, {n}, 0;",
            "@p st.global.b32 [{ptr}], {a};",
            "setp.gt.u32 p, {n}, 1;",
            "@p st.global.b32 [{ptr} + 4], {b};",
            "setp.gt.u32 p, {n}, 2;",
            "@p st.global.b32 [{ptr} + 8], {c};",
            "setp.gt.u32 p, {n}, 3;",
            "@p st.global.b32 [{ptr} + 12], {d};",
            "setp.ne.u32 p, {wide}, 0;",
            "@p st.global.v4.u32 [{ptr}], {{{a}, {b}, {c}, {d}}};",
            "}}",
            n = in(reg32) valid, wide = in(reg32) wide as u32, ptr = in(reg64) ptr,
            a = in(reg32) a, b = in(reg32) b, c = in(reg32) c, d = in(reg32) d,
            options(nostack));
    }
}

/// Stores the first `valid` of two 8-byte elements. One access where all are valid and lie on a
/// 16-byte boundary.
///
/// # Safety
///
/// `ptr` must be 8-byte aligned and writable for `valid` elements, by this thread alone.
#[inline(always)]
pub unsafe fn scatter_u64(ptr: *mut u64, value: [u32; 4], valid: u32) {
    let [a, b, c, d] = value;
    let wide = valid == 2 && ptr.addr().is_multiple_of(16);
    let valid = if wide { 0 } else { valid };
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{",
            ".reg .pred p;",
            ".reg .b64 q<2>;",
            "mov.b64 q0, {{{a}, {b}}};",
            "mov.b64 q1, {{{c}, {d}}};",
            "setp.gt.u32 p, {n}, 0;",
            "@p st.global.b64 [{ptr}], q0;",
            "setp.gt.u32 p, {n}, 1;",
            "@p st.global.b64 [{ptr} + 8], q1;",
            "setp.ne.u32 p, {wide}, 0;",
            "@p st.global.v4.u32 [{ptr}], {{{a}, {b}, {c}, {d}}};",
            "}}",
            n = in(reg32) valid, wide = in(reg32) wide as u32, ptr = in(reg64) ptr,
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
