//! A block on the GPU: a phase is run by each hardware thread, on its own registers.

use cuda_std::{atomic, mem, shared, thread, warp};

pub use core::array::from_fn;
pub use cuda_std::thread::opaque;

#[cfg(target_feature = "sm_90")]
pub use cuda_std::grid::{let_next_start, wait_for_previous};

use crate::block::{Block, COLUMNS, MAX_WARPS};
use crate::element::{Element, Lanes, Pack};
use crate::lock::{Gate, LockWord};
use crate::real::{Real, add_lanes, total_lanes};

// 256 threads x 16 bytes.
cuda_std::static_shared!(column_scratch, "ferronorm_column_sum", 4096);

/// A thread's own `S`, in registers.
pub struct Registers<S>(S);

/// The block that this thread belongs to.
pub struct GpuBlock {
    /// Which of the two buffers of `sum_scratch` is next.
    buffer: u32,
}

impl GpuBlock {
    /// The block of the running thread.
    #[inline(always)]
    pub fn new() -> Self {
        GpuBlock { buffer: 0 }
    }
}

impl Block for GpuBlock {
    type State<S> = Registers<S>;

    #[inline(always)]
    fn index(&self) -> usize {
        thread::block_idx_x() as usize
    }

    #[inline(always)]
    fn grid(&self) -> usize {
        thread::grid_dim_x() as usize
    }

    #[inline(always)]
    fn threads(&self) -> usize {
        // Opaque: a body that asks inside its loop gets its packs' addresses computed there. The
        // V addresses of each matrix would else fill the registers that dw and db need.
        thread::opaque(thread::block_dim_x() as usize)
    }

    #[inline(always)]
    fn state<S>(&self, mut init: impl FnMut(usize) -> S) -> Registers<S> {
        Registers(init(thread::thread_idx_x() as usize))
    }

    #[inline(always)]
    fn each<S>(&mut self, state: &mut Registers<S>, mut phase: impl FnMut(usize, &mut S)) {
        phase(thread::thread_idx_x() as usize, &mut state.0);
    }

    #[inline(always)]
    fn sum<S, T: Real, const R: usize, const K: usize>(
        &mut self,
        state: &mut Registers<S>,
        mut phase: impl FnMut(usize, &mut S) -> [[T; K]; R],
    ) -> [[T; K]; R] {
        const { assert!((R * K).is_power_of_two() && R * K <= 8) };
        let thread = thread::thread_idx_x();
        let mut values = phase(thread as usize, &mut state.0);
        // SAFETY: `sum` is reached by the whole block.
        unsafe { self.block_sum(values.as_flattened_mut()) };
        values
    }

    #[inline(always)]
    fn column_sum<T: Real>(
        &mut self,
        mut value: impl FnMut(usize) -> <T as Element>::Lanes,
        mut take: impl FnMut(usize, <T as Element>::Lanes),
    ) {
        let thread = thread::thread_idx_x();
        let own = T::pack(value(thread as usize)).0;
        // SAFETY: this thread's 16 bytes of the scratch.
        unsafe { shared::store(column_scratch() + 16 * thread, own) };
        // SAFETY: `column_sum` is reached by the whole block.
        unsafe { thread::sync_threads() };
        if thread < warp::WARP {
            // Lane l has chain l / COLUMNS of column l mod COLUMNS.
            let (mut sum, mut rest) = (<T as Element>::Lanes::ZERO, <T as Element>::Lanes::ZERO);
            let mut next = thread;
            while next < thread::block_dim_x() {
                // SAFETY: within the scratch; written before the barrier.
                let other = T::unpack(Pack(unsafe { shared::load(column_scratch() + 16 * next) }));
                add_lanes::<T>(&mut sum, &mut rest, other);
                next += warp::WARP;
            }
            let mut sum = total_lanes::<T>(sum, rest);
            let mut distance = warp::WARP / 2;
            while distance >= COLUMNS as u32 {
                for l in 0..T::LANES {
                    // SAFETY: reached by the whole warp.
                    let other = unsafe { sum[l].shuffle_xor(distance) };
                    sum[l] += other;
                }
                distance /= 2;
            }
            if thread < COLUMNS as u32 {
                take(thread as usize, sum);
            }
        }
    }
}

impl GpuBlock {
    /// Sums each of `values` (1, 2, 4 or 8 of them) over the block, in the order that [`Block`]
    /// fixes.
    ///
    /// The lanes share the values out: at distance 16 a lane passes on half of its values and keeps
    /// the other half's sums, at 8 a quarter, and so on until it holds one; the rest of the tree is
    /// for that one alone. Eight values take 7 + 2 shuffles in place of 40, and each value is
    /// added up along the same tree. The warps' sums then meet in shared memory, and the lanes of a
    /// value fold them by halves.
    ///
    /// # Safety
    ///
    /// Every thread of the block must reach this very call.
    #[inline(always)]
    unsafe fn block_sum<T: Real>(&mut self, values: &mut [T]) {
        let count = values.len() as u32;
        let lane = thread::thread_idx_x() % warp::WARP;
        let mut distance = warp::WARP / 2;
        let mut held = values.len();
        while held > 1 {
            held /= 2;
            let upper = lane & distance != 0;
            for i in 0..held {
                let (low, high) = (values[i], values[i + held]);
                let (keep, pass) = if upper { (high, low) } else { (low, high) };
                // SAFETY: the caller's promise.
                values[i] = keep + unsafe { pass.shuffle_xor(distance) };
            }
            distance /= 2;
        }
        // SAFETY: the caller's promise.
        let mut sum = unsafe { fold_lanes(values[0], distance) };

        // Lanes that hold the same value: `lane / group` is its number.
        let group = warp::WARP / count;
        let warps = thread::block_dim_x() / warp::WARP;
        if warps > 1 {
            let size = size_of::<T>() as u32;
            let values = self.buffer * 8 + lane / group;
            let row = T::scratch() + size * MAX_WARPS as u32 * values;
            self.buffer ^= 1;
            if lane % group == 0 {
                // SAFETY: this warp's sum of this value, in the buffer that nobody reads now: all
                // have left the sum before the last, since they came to the last one's barrier.
                unsafe { T::store_shared(row + size * (thread::thread_idx_x() / warp::WARP), sum) };
            }
            // SAFETY: the caller's promise; `warps` is uniform.
            unsafe { thread::sync_threads() };
            sum = warps_share::<T>(row, lane % group, group, warps);
            // SAFETY: the caller's promise.
            sum = unsafe { fold_lanes(sum, group.min(MAX_WARPS as u32) / 2) };
        } else {
            // No barrier of the block: what its only warp has read may be overwritten after this.
            // SAFETY: the caller's promise.
            unsafe { warp::sync() };
        }
        for (i, value) in values.iter_mut().enumerate() {
            // With one value, all lanes hold it already.
            // SAFETY: the caller's promise.
            *value = if count == 1 { sum } else { unsafe { sum.shuffle(i as u32 * group) } };
        }
    }
}

/// Adds the lane at XOR distance `distance`, then at half of it, down to 1.
///
/// # Safety
///
/// All lanes of the warp must reach this very call.
#[inline(always)]
unsafe fn fold_lanes<T: Real>(mut value: T, mut distance: u32) -> T {
    while distance > 0 {
        // SAFETY: the caller's promise.
        value += unsafe { value.shuffle_xor(distance) };
        distance /= 2;
    }
    value
}

/// What lane `lane` of a value's `group` lanes takes of the warps' sums at `row`: warps `lane`,
/// `lane + group`, and so on, folded by halves. Warps that there are not count as zero.
#[inline(always)]
fn warps_share<T: Real>(row: u32, lane: u32, group: u32, warps: u32) -> T {
    let share = |warp: u32| {
        let at = row + size_of::<T>() as u32 * warp;
        // SAFETY: within the row of the scratch; written before the barrier.
        if warp < warps { unsafe { T::load_shared(at) } } else { T::ZERO }
    };
    match group {
        4 => (share(lane) + share(lane + 8)) + (share(lane + 4) + share(lane + 12)),
        8 => share(lane) + share(lane + 8),
        _ => share(lane % MAX_WARPS as u32),
    }
}

impl Gate for GpuBlock {
    type Word = GlobalWord;

    #[inline(always)]
    fn leader(&mut self, work: impl FnOnce()) {
        if thread::thread_idx_x() == 0 {
            work();
        }
    }

    #[inline(always)]
    fn barrier(&mut self) {
        // SAFETY: bodies are uniform between phases, so all threads come here.
        unsafe { thread::sync_threads() }
    }
}

/// A word in global memory, atomic at GPU scope.
#[derive(Clone, Copy)]
pub struct GlobalWord(*mut u32);

// Every block below rests on `at`'s promise.
impl LockWord for GlobalWord {
    #[inline(always)]
    unsafe fn at(ptr: *mut u32) -> Self {
        GlobalWord(ptr)
    }

    #[inline(always)]
    fn compare_exchange_acquire(self, current: u32, new: u32) -> u32 {
        // SAFETY: valid by the promise of `at`.
        unsafe { atomic::compare_exchange_acquire(self.0, current, new) }
    }

    #[inline(always)]
    fn store_release(self, value: u32) {
        // SAFETY: valid by the promise of `at`.
        unsafe { atomic::store_release(self.0, value) }
    }

    #[inline(always)]
    fn load_relaxed(self) -> u32 {
        // SAFETY: valid by the promise of `at`.
        unsafe { atomic::load_relaxed(self.0) }
    }

    #[inline(always)]
    fn store_relaxed(self, value: u32) {
        // SAFETY: valid by the promise of `at`.
        unsafe { atomic::store_relaxed(self.0, value) }
    }

    #[inline(always)]
    fn pause(n: u32) {
        atomic::nanosleep(32 * n.min(4));
    }
}

/// `pack`, unpacked anew after this.
#[inline(always)]
pub fn opaque_pack(pack: Pack) -> Pack {
    Pack(thread::opaque_words(pack.0))
}

/// Loads a pack that the launch does not write, or gives zeros and does not touch memory if `skip`.
///
/// # Safety
///
/// `ptr` must be aligned and readable, unless `skip`.
#[inline(always)]
pub unsafe fn load_pack_unless(skip: bool, ptr: *const Pack) -> Pack {
    // SAFETY: the caller's promise.
    Pack(unsafe { mem::load_nc_unless(skip, ptr.cast()) })
}

/// Stores a pack, or nothing if `skip`.
///
/// # Safety
///
/// `ptr` must be aligned and writable, by this thread alone, unless `skip`.
#[inline(always)]
pub unsafe fn store_pack_unless(skip: bool, ptr: *mut Pack, pack: Pack) {
    // SAFETY: the caller's promise.
    unsafe { mem::store_unless(skip, ptr.cast(), pack.0) }
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
    Pack(unsafe { mem::load_cg_unless(skip, ptr.cast()) })
}

/// Stores 16 bytes for other blocks to read.
///
/// # Safety
///
/// `ptr` must be aligned and writable; a lock or a launch orders other accesses.
#[inline(always)]
pub unsafe fn store_shared(ptr: *mut Pack, value: Pack) {
    // SAFETY: the caller's promise.
    unsafe { mem::store_cg(ptr.cast(), value.0) }
}

/// Nothing: before sm_90 a launch starts when the one before it has ended.
#[cfg(not(target_feature = "sm_90"))]
#[inline(always)]
pub fn wait_for_previous() {}

/// Nothing, likewise.
#[cfg(not(target_feature = "sm_90"))]
#[inline(always)]
pub fn let_next_start() {}
