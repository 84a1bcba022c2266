//! Packs that lie across 16-byte boundaries, by accesses of 16 bytes where they can be.
//!
//! ```text
//! memory     [ . . . a b c d e | f g h i j k l m | n o p q r s t u | v …
//! packs            [ pack 0: a … h | pack 1: i … p | pack 2: q … x
//! ```
//!
//! A load takes both granules that a pack lies in, each if it is all within the row, and shifts. A
//! store has each lane store the granule that starts in its pack, with the head of the next lane's
//! pack. What is left at the ends of the row, and for stores at those of the warp, goes element by
//! element. (Elements alone took 22 us where a row of whole packs takes 10: N = 1023 and 1024, f16,
//! forward of 4096 rows, H200.)

use cuda_std::shift::shift;
use cuda_std::{mem, thread, warp};

use crate::element::Pack;

/// Elements of `T` in 16 bytes.
const fn lanes<T>() -> u32 {
    16 / size_of::<T>() as u32
}

/// The first `count` elements, as bits; all if there are no more than `count`.
#[inline(always)]
fn first<T>(count: u32) -> u32 {
    (1 << count.min(lanes::<T>())) - 1
}

/// Loads a pack of a row of which `rest` elements are left, from `ptr` on; lanes past its end are
/// zero. `inner` says whether a pack of the row lies before it.
///
/// # Safety
///
/// `ptr` must be aligned for T, of 2, 4 or 8 bytes, and the row readable; nothing but this thread
/// writes this pack during the launch.
#[inline(always)]
pub unsafe fn load_any<T>(ptr: *const T, inner: bool, rest: u32) -> Pack {
    let bytes = ptr.addr() as u32 % 16;
    // Elements of the lower granule that lie before the pack.
    let before = bytes / size_of::<T>() as u32;
    let rest = rest.min(2 * lanes::<T>());
    let low = (inner || before == 0) && before + rest >= lanes::<T>();
    let high = before > 0 && before + rest >= 2 * lanes::<T>();
    let granule = ptr.cast::<u8>().wrapping_sub(bytes as usize);
    let own = first::<T>(lanes::<T>() - before);
    let left = first::<T>(rest) & !if low { own } else { 0 } & !if high { !own } else { 0 };
    // SAFETY: a granule is loaded if it lies within the row, an element if it does.
    let (some, all) = unsafe {
        let some = gather_elements(ptr, left);
        let low = mem::load_nc_unless(!low, granule);
        let high = mem::load_nc_unless(!high, granule.wrapping_add(16));
        (some, shift::<T>(low, high, bytes))
    };
    Pack(core::array::from_fn(|i| all[i] | some[i]))
}

/// Stores a pack of a row of which `rest` elements are left, from `ptr` on: those of its lanes.
///
/// # Safety
///
/// `ptr` must be aligned for T, of 2, 4 or 8 bytes, and the row writable, by nothing else. All 32
/// lanes of the warp must reach this very call, each with the pack after that of the lane before.
#[inline(always)]
pub unsafe fn store_any<T>(ptr: *mut T, pack: Pack, rest: u32) {
    let lane = thread::thread_idx_x() % warp::WARP;
    // Elements before the first boundary.
    let head = ptr.addr().wrapping_neg() as u32 % 16 / size_of::<T>() as u32;
    let rest = rest.min(2 * lanes::<T>());
    let wide = (lane != warp::WARP - 1 || head == 0) && rest >= lanes::<T>() + head;
    // The lane before has stored the head, if this pack has all of it.
    let taken = lane != 0 && rest >= head;
    let left = first::<T>(rest)
        & !if wide { !first::<T>(head) } else { 0 }
        & !if taken { first::<T>(head) } else { 0 };
    // SAFETY: the caller's promises; the next lane's pack is in the row as far as it is stored.
    unsafe {
        let next = pack.0.map(|word| warp::next_lane(word));
        let granule = shift::<T>(pack.0, next, head * size_of::<T>() as u32);
        mem::store_unless(!wide, ptr.wrapping_add(head as usize).cast(), granule);
        scatter_elements(ptr, pack, left);
    }
}

/// Loads the first `valid` elements of a pack that the launch does not write; the rest is zero. One
/// by one, but for a whole pack on a 16-byte boundary.
///
/// # Safety
///
/// `ptr` must be aligned for T, of 2, 4 or 8 bytes, and readable for `valid` elements.
#[inline(always)]
pub unsafe fn gather<T>(ptr: *const T, valid: usize) -> Pack {
    let (wide, left) = wide_or_left(ptr, valid as u32);
    // SAFETY: the caller's promise.
    let (all, some) =
        unsafe { (mem::load_nc_unless(!wide, ptr.cast()), gather_elements(ptr, left)) };
    Pack(core::array::from_fn(|i| all[i] | some[i]))
}

/// Stores the first `valid` elements of a pack, one by one, but for a whole pack on a 16-byte
/// boundary.
///
/// # Safety
///
/// `ptr` must be aligned for T, of 2, 4 or 8 bytes, and writable for `valid` elements by this thread
/// alone.
#[inline(always)]
pub unsafe fn scatter<T>(ptr: *mut T, pack: Pack, valid: usize) {
    let (wide, left) = wide_or_left(ptr, valid as u32);
    // SAFETY: the caller's promise.
    unsafe {
        mem::store_unless(!wide, ptr.cast(), pack.0);
        scatter_elements(ptr, pack, left);
    }
}

/// Whether the first `valid` elements are 16 bytes on a boundary, and else which they are.
#[inline(always)]
fn wide_or_left<T>(ptr: *const T, valid: u32) -> (bool, u32) {
    let wide = valid == lanes::<T>() && ptr.addr() % 16 == 0;
    (wide, if wide { 0 } else { first::<T>(valid) })
}

/// Loads the elements of a pack of which the bit is set; the others are zero.
///
/// # Safety
///
/// As for [`gather`], of those elements.
#[inline(always)]
unsafe fn gather_elements<T>(ptr: *const T, elements: u32) -> [u32; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        match size_of::<T>() {
            2 => mem::gather_nc_u16(ptr.cast(), elements),
            4 => mem::gather_nc_u32(ptr.cast(), elements),
            _ => mem::gather_nc_u64(ptr.cast(), elements),
        }
    }
}

/// Stores the elements of a pack of which the bit is set.
///
/// # Safety
///
/// As for [`scatter`], of those elements.
#[inline(always)]
unsafe fn scatter_elements<T>(ptr: *mut T, pack: Pack, elements: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        match size_of::<T>() {
            2 => mem::scatter_u16(ptr.cast(), pack.0, elements),
            4 => mem::scatter_u32(ptr.cast(), pack.0, elements),
            _ => mem::scatter_u64(ptr.cast(), pack.0, elements),
        }
    }
}
