//! Rows in memory, a pack at a time, and the kernels' own numbers, 16 bytes at a time.

use crate::arch;
use crate::args::RowStats;
use crate::block::WARP;
use crate::element::{Element, Lanes, Pack};
use crate::real::Real;

/// Elements of a row (or a piece of one) of `columns`, which a block holds, from pack `pack` on. In
/// 32 bits, as all that a block holds can be counted.
#[inline(always)]
fn rest<E: Element>(columns: usize, pack: usize) -> u32 {
    (columns as u32).saturating_sub(pack as u32 * E::LANES as u32)
}

/// Lanes of `E` that lie in pack `pack` of a row of `columns`: 0, some, or all of them.
#[inline(always)]
pub fn valid_lanes<E: Element>(columns: usize, pack: usize) -> usize {
    rest::<E>(columns, pack).min(E::LANES as u32) as usize
}

/// Whether a thread may pass over pack `pack`, which it would else [`store`]: there is no such pack,
/// or where rows are not `whole`, the warp has none.
#[inline(always)]
pub fn none_to_store<E: Element>(whole: bool, columns: usize, pack: usize) -> bool {
    let first = if whole { pack } else { pack / WARP * WARP };
    rest::<E>(columns, first) == 0
}

/// Pack `pack` of the row at `row`, which nothing but this thread's own store of it overwrites
/// during the launch. Lanes past the row's end are zero.
///
/// # Safety
///
/// The row must be readable over `columns`; whole packs and 16-byte aligned if whole.
#[inline(always)]
pub unsafe fn load<E: Element>(whole: bool, row: *const E, columns: usize, pack: usize) -> Pack {
    let rest = rest::<E>(columns, pack);
    // SAFETY: only lanes within the row are read.
    unsafe {
        let at = row.add(pack * E::LANES);
        if whole {
            arch::load_pack_unless(rest == 0, at.cast())
        } else {
            arch::load_any(at, pack > 0, rest)
        }
    }
}

/// As [`load`], but element by element where rows are not whole and the pack does not start on a
/// 16-byte boundary: slower, with fewer registers. For vectors, whose few packs are in the cache.
///
/// # Safety
///
/// As for [`load`].
#[inline(always)]
pub unsafe fn gather<P: Element>(whole: bool, row: *const P, columns: usize, pack: usize) -> Pack {
    let valid = valid_lanes::<P>(columns, pack);
    // SAFETY: only lanes within the row are read.
    unsafe {
        let at = row.add(pack * P::LANES);
        if whole { arch::load_pack_unless(valid == 0, at.cast()) } else { arch::gather(at, valid) }
    }
}

/// Stores the lanes of `value` that lie in the row as pack `pack` of the row at `row`.
///
/// # Safety
///
/// The row must be writable over `columns`, this pack by this thread alone; whole packs and
/// 16-byte aligned if whole. If not, all threads of the warp must come here, each with the pack after
/// that of the thread before it.
#[inline(always)]
pub unsafe fn store<E: Element>(
    whole: bool,
    row: *mut E,
    columns: usize,
    pack: usize,
    value: Pack,
) {
    let rest = rest::<E>(columns, pack);
    // SAFETY: only lanes within the row are written.
    unsafe {
        let at = row.add(pack * E::LANES);
        if whole {
            arch::store_pack_unless(rest == 0, at.cast(), value);
        } else {
            arch::store_any(at, value, rest);
        }
    }
}

/// Numbers `4 * index` to `4 * index + 3` of an array that an earlier launch wrote.
///
/// # Safety
///
/// The array must hold them, from a 16-byte boundary on.
#[inline(always)]
pub unsafe fn load_four<T: Real>(array: *const T, index: usize) -> [T; 4] {
    let mut four = [T::ZERO; 4];
    for i in 0..4 / T::LANES {
        // SAFETY: the caller's promise.
        let lanes = T::unpack(unsafe {
            arch::load_pack_unless(false, array.add(4 * index + i * T::LANES).cast())
        });
        for l in 0..T::LANES {
            four[i * T::LANES + l] = lanes[l];
        }
    }
    four
}

/// Stores numbers `4 * index` to `4 * index + 3` of an array.
///
/// # Safety
///
/// The array must have room for them, from a 16-byte boundary on, and nothing else may touch them
/// during the launch.
#[inline(always)]
pub unsafe fn store_four<T: Real>(array: *mut T, index: usize, four: [T; 4]) {
    for i in 0..4 / T::LANES {
        let mut lanes = <T as Element>::Lanes::ZERO;
        for l in 0..T::LANES {
            lanes[l] = four[i * T::LANES + l];
        }
        // SAFETY: the caller's promise.
        unsafe {
            arch::store_pack_unless(
                false,
                array.add(4 * index + i * T::LANES).cast(),
                T::pack(lanes),
            )
        };
    }
}

impl<T: Real> RowStats<T> {
    /// The statistics of row `row`.
    ///
    /// # Safety
    ///
    /// `stats` must be an array of them that holds the row's; nothing writes it during the launch.
    #[inline(always)]
    pub unsafe fn load(stats: *const core::ffi::c_void, row: usize) -> Self {
        // SAFETY: the caller's promise; four numbers are a RowStats.
        let [mean, mean_lo, rstd, rstd_lo] = unsafe { load_four::<T>(stats.cast(), row) };
        RowStats { mean, mean_lo, rstd, rstd_lo }
    }

    /// Stores the statistics of row `row`.
    ///
    /// # Safety
    ///
    /// `stats` must be an array with room for them; nothing else touches them during the launch.
    #[inline(always)]
    pub unsafe fn store(self, stats: *mut core::ffi::c_void, row: usize) {
        let RowStats { mean, mean_lo, rstd, rstd_lo } = self;
        // SAFETY: the caller's promise; four numbers are a RowStats.
        unsafe { store_four::<T>(stats.cast(), row, [mean, mean_lo, rstd, rstd_lo]) };
    }
}
