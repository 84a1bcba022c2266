//! A block on the CPU: one OS thread runs a phase for each of the block's threads in turn.
//!
//! Blocks run beside each other on as many OS threads as the caller likes; the group locks are
//! real atomics. Collectives add in the GPU's order, so results have the GPU's bits.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};
use std::vec::Vec;

use crate::block::{Block, CHAINS, COLUMNS, MAX_WARPS, WARP};
use crate::element::{Element, Lanes, Pack};
use crate::lock::{Gate, LockWord};
use crate::real::{Real, add_lanes, total_lanes};

/// A block of threads, run by one OS thread.
///
/// WIDE says for which instructions it is compiled ([`is_wide`]). It makes two types of the one, so
/// that each phase of a kernel has one caller, is inlined there, and is compiled for that caller's
/// instructions: shared between two, it would stay a function for the least of processors.
pub struct CpuBlock<const WIDE: bool> {
    index: usize,
    grid: usize,
    threads: usize,
}

/// The work of one block: a kernel with its arguments.
pub trait Work {
    /// Runs the kernel for `block`. Must be `#[inline(always)]`, so that [`run`] can compile it
    /// for the processor's vector instructions.
    fn run<const WIDE: bool>(self, block: &mut CpuBlock<WIDE>);
}

/// Whether the processor has fused multiply-add, 256-bit vectors and conversions of binary16. (Asked
/// of x86 alone: others are compiled for what they all have.)
#[inline]
pub fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("fma")
        && std::is_x86_feature_detected!("f16c");
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// Runs `work` for block `index` of `grid` blocks of `threads` threads (a multiple of 32), compiled
/// for what [`is_wide`] says if WIDE. The results are the same without: only slower, since each
/// `fma` is then a library call.
///
/// # Safety
///
/// If WIDE, the processor must be.
#[inline]
pub unsafe fn run<const WIDE: bool>(work: impl Work, index: usize, grid: usize, threads: usize) {
    assert!(threads > 0 && threads.is_multiple_of(WARP), "threads: {threads}");
    #[cfg(target_arch = "x86_64")]
    if WIDE {
        #[inline]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn wide<const WIDE: bool>(work: impl Work, index: usize, grid: usize, threads: usize) {
            work.run(&mut CpuBlock::<WIDE> { index, grid, threads });
        }
        // SAFETY: the caller's promise.
        return unsafe { wide::<WIDE>(work, index, grid, threads) };
    }
    work.run(&mut CpuBlock::<WIDE> { index, grid, threads });
}

impl<const WIDE: bool> Block for CpuBlock<WIDE> {
    type State<S> = Vec<S>;

    #[inline(always)]
    fn index(&self) -> usize {
        self.index
    }

    #[inline(always)]
    fn grid(&self) -> usize {
        self.grid
    }

    #[inline(always)]
    fn threads(&self) -> usize {
        self.threads
    }

    #[inline(always)]
    fn state<S>(&self, init: impl FnMut(usize) -> S) -> Vec<S> {
        (0..self.threads).map(init).collect()
    }

    #[inline(always)]
    fn each<S>(&mut self, state: &mut Vec<S>, mut phase: impl FnMut(usize, &mut S)) {
        for (thread, s) in state.iter_mut().enumerate() {
            phase(thread, s);
        }
    }

    #[inline(always)]
    fn sum<S, T: Real, const R: usize, const K: usize>(
        &mut self,
        state: &mut Vec<S>,
        mut phase: impl FnMut(usize, &mut S) -> [[T; K]; R],
    ) -> [[T; K]; R] {
        let mut warps = [[[T::ZERO; K]; R]; MAX_WARPS];
        let mut lanes = [[[T::ZERO; K]; R]; WARP];
        let (whole, _) = state.as_chunks_mut::<WARP>();
        for (warp, states) in whole.iter_mut().enumerate() {
            for lane in 0..WARP {
                lanes[lane] = phase(warp * WARP + lane, &mut states[lane]);
            }
            warps[warp] = fold(lanes);
        }
        // One warp has its sum already, as on a GPU: adding zeros would turn -0.0 into 0.0.
        if self.threads == WARP { warps[0] } else { fold(warps) }
    }

    #[inline(always)]
    fn column_sum<T: Real>(
        &mut self,
        mut value: impl FnMut(usize) -> <T as Element>::Lanes,
        mut take: impl FnMut(usize, <T as Element>::Lanes),
    ) {
        let mut chains = [[<T as Element>::Lanes::ZERO; COLUMNS]; CHAINS];
        let mut rests = chains;
        for thread in 0..self.threads {
            let (chain, column) = (thread / COLUMNS % CHAINS, thread % COLUMNS);
            let (sum, rest) = (&mut chains[chain][column], &mut rests[chain][column]);
            add_lanes::<T>(sum, rest, value(thread));
        }
        for (sum, rest) in chains.iter_mut().flatten().zip(rests.iter().flatten()) {
            *sum = total_lanes::<T>(*sum, *rest);
        }
        let mut half = CHAINS / 2;
        while half > 0 {
            let (low, high) = chains.split_at_mut(half);
            for (a, b) in low.iter_mut().flatten().zip(high.iter().flatten()) {
                for l in 0..T::LANES {
                    a[l] += b[l];
                }
            }
            half /= 2;
        }
        for (column, sum) in chains[0].into_iter().enumerate() {
            take(column, sum);
        }
    }
}

/// The sum of `values` by halves: what lane 0 of a GPU's butterfly holds.
#[inline(always)]
fn fold<T: Real, const R: usize, const K: usize, const N: usize>(
    mut values: [[[T; K]; R]; N],
) -> [[T; K]; R] {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            for r in 0..R {
                for k in 0..K {
                    values[i][r][k] += values[i + half][r][k];
                }
            }
        }
        half /= 2;
    }
    values[0]
}

impl<const WIDE: bool> Gate for CpuBlock<WIDE> {
    type Word = Word;

    #[inline(always)]
    fn leader(&mut self, work: impl FnOnce()) {
        work();
    }

    #[inline(always)]
    fn barrier(&mut self) {
        // One OS thread runs the whole block: a phase has ended when the next begins.
    }
}

/// A word in memory, atomic over the process.
#[derive(Clone, Copy)]
pub struct Word(*mut u32);

impl Word {
    #[inline(always)]
    fn atomic(&self) -> &AtomicU32 {
        // SAFETY: aligned, valid and only accessed atomically, by the promise of `at`.
        unsafe { AtomicU32::from_ptr(self.0) }
    }
}

impl LockWord for Word {
    #[inline(always)]
    unsafe fn at(ptr: *mut u32) -> Self {
        Word(ptr)
    }

    #[inline(always)]
    fn compare_exchange_acquire(self, current: u32, new: u32) -> u32 {
        match self.atomic().compare_exchange(current, new, Ordering::Acquire, Ordering::Relaxed) {
            Ok(old) | Err(old) => old,
        }
    }

    #[inline(always)]
    fn store_release(self, value: u32) {
        self.atomic().store(value, Ordering::Release);
    }

    #[inline(always)]
    fn load_relaxed(self) -> u32 {
        self.atomic().load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn store_relaxed(self, value: u32) {
        self.atomic().store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn pause(n: u32) {
        // A holder may have been put off its core: after a while, give ours up.
        if n == 0 {
        } else if n < 64 {
            core::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

/// `value`; on a GPU it keeps the compiler from holding what is derived from it in registers.
#[inline(always)]
pub fn opaque(value: usize) -> usize {
    value
}

/// `pack`; on a GPU it is unpacked anew after this.
#[inline(always)]
pub fn opaque_pack(pack: Pack) -> Pack {
    pack
}

/// As [`core::array::from_fn`], but inlined for certain: what `value` borrows would else have to lie
/// in memory.
#[inline(always)]
pub fn from_fn<T: Copy, const N: usize>(mut value: impl FnMut(usize) -> T) -> [T; N] {
    let mut values = [MaybeUninit::uninit(); N];
    for i in 0..N {
        values[i].write(value(i));
    }
    // SAFETY: all are written.
    values.map(|value| unsafe { value.assume_init() })
}

/// Nothing: a launch starts when the one before it has ended.
#[inline(always)]
pub fn wait_for_previous() {}

/// Nothing, likewise.
#[inline(always)]
pub fn let_next_start() {}

/// What a machine does with numbers, beside the operators.
pub trait Number: Copy {
    /// `self * b + c` with one rounding.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
}

macro_rules! number {
    ($type:ident) => {
        impl Number for $type {
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                $type::sqrt(self)
            }
        }
    };
}

number!(f32);
number!(f64);
