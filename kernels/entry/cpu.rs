//! The kernels as functions that run one block on the CPU.

use half::{bf16, f16};

use crate::arch::{CpuBlock, Work, run};
use crate::args::{BackwardArgs, ColumnsArgs, ForwardArgs};
use crate::feed::Direct;
use crate::{Element, backward, columns, forward};

/// A block of a launch: number `index` of `grid` blocks of `threads` threads.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Index of the block.
    pub index: usize,
    /// Blocks of the launch.
    pub grid: usize,
    /// Threads of a block, a multiple of 32.
    pub threads: usize,
}

impl At {
    fn run(self, work: impl Work) {
        run(work, self.index, self.grid, self.threads);
    }
}

/// Picks the instance for V and R, as the GPU's loader picks one by name.
macro_rules! instance {
    ($v:expr, $r:expr, |$V:ident, $R:ident| $call:expr) => {{
        macro_rules! with {
            ($a:literal, $b:literal) => {{
                const $V: usize = $a;
                const $R: usize = $b;
                $call
            }};
        }
        match ($v, $r) {
            (1, 1) => with!(1, 1),
            (4, 1) => with!(4, 1),
            (8, 1) => with!(8, 1),
            (16, 1) => with!(16, 1),
            (1, 4) => with!(1, 4),
            (4, 2) => with!(4, 2),
            (v, r) => unreachable!("no instance with {v} packs and {r} rows is compiled"),
        }
    }};
}

struct Forward<'a, E, const V: usize, const R: usize>(&'a ForwardArgs<E>);

impl<E: Element, const V: usize, const R: usize> Work for Forward<'_, E, V, R> {
    #[inline(always)]
    fn run<const WIDE: bool>(self, block: &mut CpuBlock<WIDE>) {
        // SAFETY: the promises of `forward`'s caller.
        unsafe { forward::rows::<_, Direct<E, 1, 2, false>, E, V, R>(block, self.0) }
    }
}

struct Backward<'a, E, const V: usize, const R: usize>(&'a BackwardArgs<E>);

impl<E: Element, const V: usize, const R: usize> Work for Backward<'_, E, V, R> {
    #[inline(always)]
    fn run<const WIDE: bool>(self, block: &mut CpuBlock<WIDE>) {
        // SAFETY: the promises of `backward`'s caller.
        unsafe { backward::rows::<_, Direct<E, 2, 1, false>, E, V, R>(block, self.0) }
    }
}

struct Columns<'a, E>(&'a ColumnsArgs<E>);

impl<E: Element> Work for Columns<'_, E> {
    #[inline(always)]
    fn run<const WIDE: bool>(self, block: &mut CpuBlock<WIDE>) {
        // SAFETY: the promises of `columns`'s caller.
        unsafe { columns::reduce(block, self.0) }
    }
}

/// The kernels compiled for a storage type: here, once, and not in every crate that calls them.
pub trait Compiled: Element {
    /// Runs one block of [`forward::rows`] with V packs per thread and R rows per tile.
    ///
    /// # Safety
    ///
    /// As for the kernel.
    ///
    /// # Panics
    ///
    /// Where no instance with these V and R is compiled.
    unsafe fn forward(v: usize, r: usize, block: At, args: &ForwardArgs<Self>);

    /// Runs one block of [`backward::rows`] with V packs per thread and R rows per tile.
    ///
    /// # Safety
    ///
    /// As for the kernel.
    ///
    /// # Panics
    ///
    /// Where no instance with these V and R is compiled.
    unsafe fn backward_rows(v: usize, r: usize, block: At, args: &BackwardArgs<Self>);

    /// Runs one block of [`columns::reduce`].
    ///
    /// # Safety
    ///
    /// As for the kernel.
    unsafe fn backward_columns(block: At, args: &ColumnsArgs<Self>);
}

macro_rules! compile {
    ($type:ty) => {
        impl Compiled for $type {
            unsafe fn forward(v: usize, r: usize, block: At, args: &ForwardArgs<Self>) {
                instance!(v, r, |V, R| block.run(Forward::<Self, V, R>(args)));
            }

            unsafe fn backward_rows(v: usize, r: usize, block: At, args: &BackwardArgs<Self>) {
                instance!(v, r, |V, R| block.run(Backward::<Self, V, R>(args)));
            }

            unsafe fn backward_columns(block: At, args: &ColumnsArgs<Self>) {
                block.run(Columns(args));
            }
        }
    };
}

compile!(f32);
compile!(f16);
compile!(bf16);
