//! Packs in memory, on the CPU: whole ones as vectors, at any alignment.

use crate::element::Pack;

/// Loads a pack from any address: as one vector, where an array of words may become four loads.
///
/// # Safety
///
/// `ptr` must be readable.
#[inline(always)]
unsafe fn load(ptr: *const Pack) -> Vector {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::x86_64::_mm_loadu_ps(ptr.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        ptr.cast::<Vector>().read_unaligned()
    }
}

/// Stores a pack at any address.
///
/// # Safety
///
/// `ptr` must be writable.
#[inline(always)]
unsafe fn store(ptr: *mut Pack, pack: Pack) {
    // SAFETY: the caller's promise.
    unsafe { ptr.write_unaligned(pack) };
}

/// The bits of a pack as one value.
#[cfg(target_arch = "x86_64")]
type Vector = core::arch::x86_64::__m128;
#[cfg(not(target_arch = "x86_64"))]
type Vector = u128;

#[inline(always)]
fn pack_of(vector: Vector) -> Pack {
    // SAFETY: 16 bytes in both, of which all values are right.
    unsafe { core::mem::transmute(vector) }
}

#[inline(always)]
fn vector_of(pack: Pack) -> Vector {
    // SAFETY: 16 bytes in both, of which all values are right.
    unsafe { core::mem::transmute(pack) }
}

/// Has what lies at `ptr` brought near, if that is memory.
#[inline(always)]
pub fn prefetch(ptr: *const Pack) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads nothing, and any address is right.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(ptr.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = ptr;
}

/// Loads a pack, or gives zeros and does not touch memory if `skip`.
///
/// # Safety
///
/// `ptr` must be readable, unless `skip`.
#[inline(always)]
pub unsafe fn load_pack_unless(skip: bool, ptr: *const Pack) -> Pack {
    // SAFETY: the caller's promise.
    pack_of(if skip { vector_of(Pack::default()) } else { unsafe { load(ptr) } })
}

/// Loads a pack of a row of which `rest` elements are left, from `ptr` on; lanes past its end are
/// zero.
///
/// # Safety
///
/// `ptr` must be aligned for T, and the row readable.
#[inline(always)]
pub unsafe fn load_any<T>(ptr: *const T, _inner: bool, rest: u32) -> Pack {
    // SAFETY: the caller's promise.
    unsafe { gather(ptr, (rest as usize).min(size_of::<Pack>() / size_of::<T>())) }
}

/// Stores a pack of a row of which `rest` elements are left, from `ptr` on.
///
/// # Safety
///
/// `ptr` must be aligned for T, and the row writable, by nothing else.
#[inline(always)]
pub unsafe fn store_any<T>(ptr: *mut T, pack: Pack, rest: u32) {
    // SAFETY: the caller's promise.
    unsafe { scatter(ptr, pack, (rest as usize).min(size_of::<Pack>() / size_of::<T>())) }
}

/// Loads the first `valid` elements of a pack; the rest is zero.
///
/// # Safety
///
/// `ptr` must be aligned for T and readable for `valid` elements.
#[inline(always)]
pub unsafe fn gather<T>(ptr: *const T, valid: usize) -> Pack {
    let bytes = valid * size_of::<T>();
    // SAFETY: the caller's promise; a CPU reads a pack at any address.
    pack_of(unsafe {
        match bytes {
            0 => vector_of(Pack::default()),
            16 => load(ptr.cast()),
            _ => gather_bytes(ptr.cast(), bytes),
        }
    })
}

/// Loads the first `bytes` bytes of a pack; the rest is zero. Apart from [`gather`], so that a row's
/// whole packs stay in registers.
///
/// # Safety
///
/// `ptr` must be readable for so many, at most 16.
#[cold]
#[inline(never)]
unsafe fn gather_bytes(ptr: *const u8, bytes: usize) -> Vector {
    let mut pack = Pack::default();
    // SAFETY: the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping(ptr, (&raw mut pack).cast(), bytes) };
    vector_of(pack)
}

/// Stores a pack, or nothing if `skip`.
///
/// # Safety
///
/// `ptr` must be writable, unless `skip`.
#[inline(always)]
pub unsafe fn store_pack_unless(skip: bool, ptr: *mut Pack, pack: Pack) {
    if !skip {
        // SAFETY: the caller's promise.
        unsafe { store(ptr, pack) }
    }
}

/// Stores the first `valid` elements of a pack.
///
/// # Safety
///
/// `ptr` must be aligned for T and writable for `valid` elements.
#[inline(always)]
pub unsafe fn scatter<T>(ptr: *mut T, pack: Pack, valid: usize) {
    let bytes = valid * size_of::<T>();
    // SAFETY: the caller's promise; a CPU writes a pack at any address.
    unsafe {
        match bytes {
            0 => {}
            16 => store(ptr.cast(), pack),
            _ => scatter_bytes(ptr.cast(), vector_of(pack), bytes),
        }
    }
}

/// Stores the first `bytes` bytes of a pack, for [`scatter`].
///
/// # Safety
///
/// `ptr` must be writable for so many, at most 16.
#[cold]
#[inline(never)]
unsafe fn scatter_bytes(ptr: *mut u8, pack: Vector, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping((&raw const pack).cast(), ptr, bytes) };
}

/// Loads 16 bytes that other blocks may have written, or gives zeros and does not touch memory if
/// `skip`.
///
/// # Safety
///
/// `ptr` must be aligned and readable, unless `skip`; a lock or a launch orders the writes before
/// this.
#[inline(always)]
pub unsafe fn load_shared_unless(skip: bool, ptr: *const Pack) -> Pack {
    // SAFETY: the caller's promise.
    unsafe { load_pack_unless(skip, ptr) }
}

/// Stores 16 bytes for other blocks to read.
///
/// # Safety
///
/// `ptr` must be aligned and writable; a lock or a launch orders other accesses.
#[inline(always)]
pub unsafe fn store_shared(ptr: *mut Pack, value: Pack) {
    // SAFETY: the caller's promise.
    unsafe { *ptr = value }
}
