//! The kernels as functions that run one block on the CPU.

use core::marker::PhantomData;

use half::{bf16, f16};

use super::instance::{DataType, Instance, Kernel};
use crate::arch::{CpuBlock, CpuFeed, Work, is_wide, run, wide};
use crate::args::{BackwardArgs, ColumnsArgs, ForwardArgs, LimitArgs};
use crate::{Element, Params, backward, columns, forward, limit, long};

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

/// A kernel's arguments.
#[derive(Clone, Copy, Debug)]
pub enum Args<'a> {
    /// Of a kernel of forward.
    Forward(&'a ForwardArgs),
    /// Of a kernel of stage 1 of backward.
    Backward(&'a BackwardArgs),
    /// Of stage 2 of backward.
    Columns(&'a ColumnsArgs),
    /// Of the copy or the addition that speed is compared with.
    Limit(&'a LimitArgs),
}

/// Runs one block of `instance`. (Its feed makes no difference here: a CPU reads rows at any
/// alignment, and whole packs faster.)
///
/// # Safety
///
/// As for the kernel.
///
/// # Panics
///
/// Where there is no such instance, or `args` are not its arguments.
pub unsafe fn run_block(instance: &Instance, at: At, args: Args<'_>) {
    use DataType::*;
    let run = match (instance.storage.x, instance.storage.params) {
        (F64, F64) => f64w64::run,
        (F32, F32) => f32w32::run,
        (F16, F16) => f16w16::run,
        (F16, F32) => f16w32::run,
        (Bf16, Bf16) => bf16w16::run,
        (Bf16, F32) => bf16w32::run,
        _ => unreachable!("no instance {instance} is compiled"),
    };
    run(instance, at, args)
}

/// A module for each pair of types, so that the compiler works on them side by side. The second pair
/// is the first as a wide processor has it.
macro_rules! compile {
    ($($module:ident: $x:ty, $params:ty; $wide_x:ty, $wide_params:ty;)*) => {$(
        mod $module {
            use super::*;

            pub fn run(instance: &Instance, at: At, args: Args<'_>) {
                if is_wide() {
                    // SAFETY: it is.
                    unsafe { pick::<$wide_x, $wide_params, true>(instance, at, args) };
                } else {
                    // SAFETY: nothing is asked of the processor.
                    unsafe { pick::<$x, $params, false>(instance, at, args) };
                }
            }
        }
    )*};
}

compile! {
    f64w64: f64, f64; f64, f64;
    f32w32: f32, f32; f32, f32;
    f16w16: f16, f16; wide::F16, wide::F16;
    f16w32: f16, f32; wide::F16, f32;
    bf16w16: bf16, bf16; wide::Bf16, wide::Bf16;
    bf16w32: bf16, f32; wide::Bf16, f32;
}

/// Picks the instance for V and R, as the GPU's loader picks one by name.
///
/// # Safety
///
/// If WIDE, the processor must be.
#[inline]
unsafe fn pick<E: Element, P: Params<E>, const WIDE: bool>(
    instance: &Instance,
    at: At,
    args: Args<'_>,
) {
    let (kernel, types) = (instance.kernel, PhantomData::<(E, P)>);
    let At { index, grid, threads } = at;
    let columns = match args {
        Args::Forward(args) => args.extent.columns,
        Args::Backward(args) => args.extent.columns,
        Args::Columns(_) | Args::Limit(_) => 0,
    };
    let whole = columns.is_multiple_of(E::LANES);
    macro_rules! rows {
        ($v:literal, $r:literal, $whole:literal, $full:literal) => {{
            let work = Rows::<E, P, $v, $r, $whole, $full> { kernel, args, types };
            // SAFETY: the caller's promise.
            unsafe { run::<WIDE>(work, index, grid, threads) }
        }};
        // What is seldom met is compiled once, for all rows.
        ($v:literal, $r:literal) => {
            if !WIDE || $r > 1 || !whole {
                rows!($v, $r, false, false)
            } else if columns == $v * threads * E::LANES {
                rows!($v, 1, true, true)
            } else {
                rows!($v, 1, true, false)
            }
        };
    }
    match (instance.packs, instance.rows) {
        // SAFETY: the caller's promise.
        (0, 0) => unsafe { run::<WIDE>(Only { kernel, args, types }, index, grid, threads) },
        (1, 1) => rows!(1, 1),
        (2, 1) if E::LANES > 2 => rows!(2, 1),
        (3, 1) if E::LANES > 2 => rows!(3, 1),
        (4, 1) => rows!(4, 1),
        (8, 1) => rows!(8, 1),
        (16, 1) if E::LANES == 4 => rows!(16, 1),
        (1, 4) if E::LANES > 2 => rows!(1, 4),
        (2, 2) if E::LANES > 2 => rows!(2, 2),
        (3, 2) if E::LANES > 2 => rows!(3, 2),
        (4, 2) if E::LANES > 2 => rows!(4, 2),
        (v, r) => unreachable!("no instance with {v} packs and {r} rows is compiled"),
    }
}

/// A kernel that goes over rows.
struct Rows<'a, E, P, const V: usize, const R: usize, const WHOLE: bool, const FULL: bool> {
    kernel: Kernel,
    args: Args<'a>,
    types: PhantomData<(E, P)>,
}

impl<E: Element, P: Params<E>, const V: usize, const R: usize, const WHOLE: bool, const FULL: bool>
    Work for Rows<'_, E, P, V, R, WHOLE, FULL>
{
    #[inline(always)]
    fn run<const WIDE: bool>(self, block: &mut CpuBlock<WIDE>) {
        // SAFETY: the promises of `run_block`'s caller.
        unsafe {
            match (self.kernel, self.args) {
                (Kernel::Forward, Args::Forward(args)) => {
                    // A copy, so that no store can be to it.
                    let args = *args;
                    forward::rows::<_, CpuFeed<1, 2, WHOLE, FULL>, E, P, V, R>(block, &args)
                }
                (Kernel::BackwardRows, Args::Backward(args)) => {
                    let args = *args;
                    backward::rows::<_, CpuFeed<2, 1, WHOLE, FULL>, E, P, V, R, 0>(block, &args)
                }
                (kernel, args) => unreachable!("{kernel:?} with {args:?}"),
            }
        }
    }
}

/// A kernel of which there is one for its types.
struct Only<'a, E, P> {
    kernel: Kernel,
    args: Args<'a>,
    types: PhantomData<(E, P)>,
}

impl<E: Element, P: Params<E>> Work for Only<'_, E, P> {
    #[inline(always)]
    fn run<const WIDE: bool>(self, block: &mut CpuBlock<WIDE>) {
        use long::{backward, forward};
        // SAFETY: the promises of `run_block`'s caller.
        unsafe {
            match (self.kernel, self.args) {
                (Kernel::LongSums, Args::Forward(args)) => forward::sums::<_, E>(block, args),
                (Kernel::LongMean, Args::Forward(args)) => forward::mean::<_, E::Real>(block, args),
                (Kernel::LongSpread, Args::Forward(args)) => forward::spread::<_, E>(block, args),
                (Kernel::LongStats, Args::Forward(args)) => {
                    forward::stats::<_, E::Real>(block, args)
                }
                (Kernel::LongNormalise, Args::Forward(args)) => {
                    forward::normalise::<_, E, P>(block, args)
                }
                (Kernel::LongDots, Args::Backward(args)) => backward::dots::<_, E, P>(block, args),
                (Kernel::LongMeans, Args::Backward(args)) => {
                    backward::means::<_, E::Real>(block, args)
                }
                (Kernel::LongApply, Args::Backward(args)) => {
                    backward::apply::<_, E, P>(block, args)
                }
                (Kernel::BackwardColumns, Args::Columns(args)) => {
                    columns::reduce::<_, P>(block, args)
                }
                (Kernel::Limit, Args::Limit(args)) => {
                    limit::elementwise::<_, E, false>(block, args)
                }
                (kernel, args) => unreachable!("{kernel:?} with {args:?}"),
            }
        }
    }
}
