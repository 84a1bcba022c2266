//! A block on the CPU: one OS thread runs a phase for each of the block's threads in turn.
//!
//! Blocks run beside each other on as many OS threads as the caller likes; the group locks are
//! real atomics. Collectives add in the GPU's order, so results have the GPU's bits.

use core::sync::atomic::{AtomicU32, Ordering};
use std::vec::Vec;

use half::slice::HalfFloatSliceExt;

use crate::block::{Block, CHAINS, COLUMNS, MAX_WARPS, WARP};
use crate::element::{Element, Lanes, Pack};
use crate::lock::{Gate, LockWord};
use crate::real::{Real, add_lanes, total_lanes};

/// A block of threads, run by one OS thread.
///
/// WIDE says for which instructions it is compiled. It makes two types of the one, so that each
/// phase of a kernel has one caller, is inlined there, and is compiled for that caller's
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

/// Runs `work` for block `index` of `grid` blocks of `threads` threads (a multiple of 32), with
/// fused multiply-add and 256-bit vectors where the processor has them. The results are the same
/// without: only slower, since each `fma` is then a library call.
#[inline]
pub fn run(work: impl Work, index: usize, grid: usize, threads: usize) {
    assert!(threads > 0 && threads.is_multiple_of(WARP), "threads: {threads}");
    #[cfg(target_arch = "x86_64")]
    {
        #[inline]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn wide(work: impl Work, block: &mut CpuBlock<true>) {
            work.run(block);
        }
        if std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("f16c")
        {
            // SAFETY: the processor has what `wide` enables.
            return unsafe { wide(work, &mut CpuBlock { index, grid, threads }) };
        }
    }
    work.run(&mut CpuBlock::<false> { index, grid, threads });
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
        for (warp, states) in state.chunks_mut(WARP).enumerate() {
            let mut lanes = [[[T::ZERO; K]; R]; WARP];
            for (lane, s) in states.iter_mut().enumerate() {
                lanes[lane] = phase(warp * WARP + lane, s);
            }
            warps[warp] = fold(&mut lanes);
        }
        // One warp has its sum already, as on a GPU: adding zeros would turn -0.0 into 0.0.
        if self.threads == WARP { warps[0] } else { fold(&mut warps) }
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
fn fold<T: Real, const R: usize, const K: usize>(values: &mut [[[T; K]; R]]) -> [[T; K]; R] {
    let mut half = values.len() / 2;
    while half > 0 {
        let (low, high) = values.split_at_mut(half);
        for (a, b) in low.iter_mut().zip(high) {
            for r in 0..R {
                for k in 0..K {
                    a[r][k] += b[r][k];
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

/// The values of eight binary16 numbers, by the processor's instruction where it has one.
#[inline(always)]
pub fn widen_f16(bits: [u16; 8]) -> [f32; 8] {
    let mut values = [0.0; 8];
    bits.map(half::f16::from_bits).convert_to_f32_slice(&mut values);
    values
}

/// The eight binary16 numbers nearest to `values`, two in a word; NaN becomes 0x7FFF, as on a GPU.
#[inline(always)]
pub fn narrow_f16(values: [f32; 8]) -> [u32; 4] {
    let mut halves = [half::f16::ZERO; 8];
    halves.convert_from_f32_slice(&values);
    pairs(halves.map(|half| if half.is_nan() { 0x7FFF } else { half.to_bits() }))
}

/// The values of eight bfloat16 numbers.
#[inline(always)]
pub fn widen_bf16(bits: [u16; 8]) -> [f32; 8] {
    bits.map(|bits| f32::from_bits((bits as u32) << 16))
}

/// The eight bfloat16 numbers nearest to `values`, two in a word; NaN becomes 0x7FFF, as on a GPU.
#[inline(always)]
pub fn narrow_bf16(values: [f32; 8]) -> [u32; 4] {
    pairs(values.map(
        |value| {
            if value.is_nan() { 0x7FFF } else { half::bf16::from_f32(value).to_bits() }
        },
    ))
}

/// Two 16-bit numbers to a word.
#[inline(always)]
fn pairs(bits: [u16; 8]) -> [u32; 4] {
    let [a, b, c, d, e, f, g, h] = bits.map(u32::from);
    [a | b << 16, c | d << 16, e | f << 16, g | h << 16]
}

/// Loads a pack, or gives zeros and does not touch memory if `skip`.
///
/// # Safety
///
/// `ptr` must be aligned and readable, unless `skip`.
#[inline(always)]
pub unsafe fn load_pack_unless(skip: bool, ptr: *const Pack) -> Pack {
    // SAFETY: the caller's promise.
    if skip { Pack::default() } else { unsafe { *ptr } }
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
    if valid * size_of::<T>() == size_of::<Pack>() {
        // SAFETY: the caller's promise; a CPU reads a pack at any address.
        return unsafe { ptr.cast::<Pack>().read_unaligned() };
    }
    let mut pack = Pack::default();
    // SAFETY: the caller's promise; `valid` elements fit in a pack.
    unsafe { core::ptr::copy_nonoverlapping(ptr, (&raw mut pack).cast(), valid) };
    pack
}

/// Stores a pack, or nothing if `skip`.
///
/// # Safety
///
/// `ptr` must be aligned and writable, unless `skip`.
#[inline(always)]
pub unsafe fn store_pack_unless(skip: bool, ptr: *mut Pack, pack: Pack) {
    if !skip {
        // SAFETY: the caller's promise.
        unsafe { *ptr = pack }
    }
}

/// Stores the first `valid` elements of a pack.
///
/// # Safety
///
/// `ptr` must be aligned for T and writable for `valid` elements.
#[inline(always)]
pub unsafe fn scatter<T>(ptr: *mut T, pack: Pack, valid: usize) {
    if valid * size_of::<T>() == size_of::<Pack>() {
        // SAFETY: the caller's promise; a CPU writes a pack at any address.
        unsafe { ptr.cast::<Pack>().write_unaligned(pack) };
    } else {
        // SAFETY: the caller's promise; `valid` elements lie in the pack.
        unsafe { core::ptr::copy_nonoverlapping((&raw const pack).cast(), ptr, valid) };
    }
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
