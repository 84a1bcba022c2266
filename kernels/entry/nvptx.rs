//! The PTX entry points.
//!
//! `<kernel>_<storage>_v<V>` reads global memory directly, `.._any` does so at any alignment, and
//! `.._v<V>r<R>_ring` reads tiles of R rows through the ring; `f16w32` has f32 weights. `threads x
//! blocks` are the most threads of a block, and the blocks for which forward leaves registers on a
//! multiprocessor: with 152 of them a thread, where 128 do, forward of 4096 f16 columns fell from
//! 2842 to 2307 GB/s.

use half::{bf16, f16};

use crate::arch::GpuBlock;
use crate::args::{BackwardArgs, ColumnsArgs, ForwardArgs};
use crate::feed::Direct;
use crate::{backward, columns, forward, long};

#[cfg(target_feature = "sm_90")]
use crate::arch::Ring;

macro_rules! entry {
    ($name:ident, $max_threads:literal $(x $blocks:literal)?, $args:ty, $kernel:expr) => {
        cuda_std::launch_bounds!($name, $max_threads $(, $blocks)?);

        #[doc = concat!("PTX entry `", stringify!($name), "`.")]
        ///
        /// # Safety
        ///
        /// As the kernel's.
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name(args: $args) {
            // SAFETY: the launcher's promises are the kernel's.
            unsafe { $kernel(&mut GpuBlock::new(), &args) }
        }
    };
}

macro_rules! direct {
    ($forward:ident, $backward:ident, $x:ty, $params:ty, $v:literal, $whole:literal, $max_threads:literal) => {
        entry!($forward, $max_threads x 1, ForwardArgs,
            forward::rows::<_, Direct<1, 2, $whole>, $x, $params, $v, 1>);
        entry!($backward, $max_threads x 1, BackwardArgs,
            backward::rows::<_, Direct<2, 1, $whole>, $x, $params, $v, 1>);
    };
}

direct!(forward_f64_v1_any, backward_rows_f64_v1_any, f64, f64, 1, false, 512);
direct!(forward_f64_v4_any, backward_rows_f64_v4_any, f64, f64, 4, false, 256);
direct!(forward_f64_v8_any, backward_rows_f64_v8_any, f64, f64, 8, false, 256);
direct!(forward_f32_v1, backward_rows_f32_v1, f32, f32, 1, true, 512);
direct!(forward_f32_v1_any, backward_rows_f32_v1_any, f32, f32, 1, false, 512);
direct!(forward_f32_v4, backward_rows_f32_v4, f32, f32, 4, true, 256);
direct!(forward_f32_v4_any, backward_rows_f32_v4_any, f32, f32, 4, false, 256);
direct!(forward_f32_v8, backward_rows_f32_v8, f32, f32, 8, true, 256);
direct!(forward_f32_v8_any, backward_rows_f32_v8_any, f32, f32, 8, false, 256);
direct!(forward_f32_v16, backward_rows_f32_v16, f32, f32, 16, true, 256);
direct!(forward_f32_v16_any, backward_rows_f32_v16_any, f32, f32, 16, false, 256);
direct!(forward_f16_v1, backward_rows_f16_v1, f16, f16, 1, true, 512);
direct!(forward_f16_v1_any, backward_rows_f16_v1_any, f16, f16, 1, false, 512);
direct!(forward_f16_v4, backward_rows_f16_v4, f16, f16, 4, true, 256);
direct!(forward_f16_v4_any, backward_rows_f16_v4_any, f16, f16, 4, false, 256);
direct!(forward_f16_v8, backward_rows_f16_v8, f16, f16, 8, true, 256);
direct!(forward_f16_v8_any, backward_rows_f16_v8_any, f16, f16, 8, false, 256);
direct!(forward_f16w32_v1, backward_rows_f16w32_v1, f16, f32, 1, true, 512);
direct!(forward_f16w32_v1_any, backward_rows_f16w32_v1_any, f16, f32, 1, false, 512);
direct!(forward_f16w32_v4, backward_rows_f16w32_v4, f16, f32, 4, true, 256);
direct!(forward_f16w32_v4_any, backward_rows_f16w32_v4_any, f16, f32, 4, false, 256);
direct!(forward_f16w32_v8, backward_rows_f16w32_v8, f16, f32, 8, true, 256);
direct!(forward_f16w32_v8_any, backward_rows_f16w32_v8_any, f16, f32, 8, false, 256);
direct!(forward_bf16_v1, backward_rows_bf16_v1, bf16, bf16, 1, true, 512);
direct!(forward_bf16_v1_any, backward_rows_bf16_v1_any, bf16, bf16, 1, false, 512);
direct!(forward_bf16_v4, backward_rows_bf16_v4, bf16, bf16, 4, true, 256);
direct!(forward_bf16_v4_any, backward_rows_bf16_v4_any, bf16, bf16, 4, false, 256);
direct!(forward_bf16_v8, backward_rows_bf16_v8, bf16, bf16, 8, true, 256);
direct!(forward_bf16_v8_any, backward_rows_bf16_v8_any, bf16, bf16, 8, false, 256);
direct!(forward_bf16w32_v1, backward_rows_bf16w32_v1, bf16, f32, 1, true, 512);
direct!(forward_bf16w32_v1_any, backward_rows_bf16w32_v1_any, bf16, f32, 1, false, 512);
direct!(forward_bf16w32_v4, backward_rows_bf16w32_v4, bf16, f32, 4, true, 256);
direct!(forward_bf16w32_v4_any, backward_rows_bf16w32_v4_any, bf16, f32, 4, false, 256);
direct!(forward_bf16w32_v8, backward_rows_bf16w32_v8, bf16, f32, 8, true, 256);
direct!(forward_bf16w32_v8_any, backward_rows_bf16w32_v8_any, bf16, f32, 8, false, 256);

entry!(backward_columns_f64, 1024, ColumnsArgs, columns::reduce::<_, f64>);
entry!(backward_columns_f32, 1024, ColumnsArgs, columns::reduce::<_, f32>);
entry!(backward_columns_f16, 1024, ColumnsArgs, columns::reduce::<_, f16>);
entry!(backward_columns_bf16, 1024, ColumnsArgs, columns::reduce::<_, bf16>);

macro_rules! long {
    ($($kernel:ident, $name:ident, $args:ty, $module:ident, <$($type:ty),+>;)+) => {
        $(entry!($name, 256 x 1, $args, long::$module::$kernel::<_, $($type),+>);)+
    };
}

long! {
    sums, long_sums_f64, ForwardArgs, forward, <f64>;
    spread, long_spread_f64, ForwardArgs, forward, <f64>;
    sums, long_sums_f32, ForwardArgs, forward, <f32>;
    spread, long_spread_f32, ForwardArgs, forward, <f32>;
    sums, long_sums_f16, ForwardArgs, forward, <f16>;
    spread, long_spread_f16, ForwardArgs, forward, <f16>;
    sums, long_sums_bf16, ForwardArgs, forward, <bf16>;
    spread, long_spread_bf16, ForwardArgs, forward, <bf16>;
    mean, long_mean_f64, ForwardArgs, forward, <f64>;
    stats, long_stats_f64, ForwardArgs, forward, <f64>;
    means, long_means_f64, BackwardArgs, backward, <f64>;
    mean, long_mean_f32, ForwardArgs, forward, <f32>;
    stats, long_stats_f32, ForwardArgs, forward, <f32>;
    means, long_means_f32, BackwardArgs, backward, <f32>;
    normalise, long_normalise_f64, ForwardArgs, forward, <f64, f64>;
    dots, long_dots_f64, BackwardArgs, backward, <f64, f64>;
    apply, long_apply_f64, BackwardArgs, backward, <f64, f64>;
    normalise, long_normalise_f32, ForwardArgs, forward, <f32, f32>;
    dots, long_dots_f32, BackwardArgs, backward, <f32, f32>;
    apply, long_apply_f32, BackwardArgs, backward, <f32, f32>;
    normalise, long_normalise_f16, ForwardArgs, forward, <f16, f16>;
    dots, long_dots_f16, BackwardArgs, backward, <f16, f16>;
    apply, long_apply_f16, BackwardArgs, backward, <f16, f16>;
    normalise, long_normalise_f16w32, ForwardArgs, forward, <f16, f32>;
    dots, long_dots_f16w32, BackwardArgs, backward, <f16, f32>;
    apply, long_apply_f16w32, BackwardArgs, backward, <f16, f32>;
    normalise, long_normalise_bf16, ForwardArgs, forward, <bf16, bf16>;
    dots, long_dots_bf16, BackwardArgs, backward, <bf16, bf16>;
    apply, long_apply_bf16, BackwardArgs, backward, <bf16, bf16>;
    normalise, long_normalise_bf16w32, ForwardArgs, forward, <bf16, f32>;
    dots, long_dots_bf16w32, BackwardArgs, backward, <bf16, f32>;
    apply, long_apply_bf16w32, BackwardArgs, backward, <bf16, f32>;
}

#[cfg(target_feature = "sm_90")]
macro_rules! ring {
    ($forward:ident, $backward:ident, $x:ty, $params:ty, $v:literal, $r:literal, $max_threads:literal x $blocks:literal) => {
        entry!($forward, $max_threads x $blocks, ForwardArgs,
            forward::rows::<_, Ring<$x, $params, 1, 2>, $x, $params, $v, $r>);
        entry!($backward, $max_threads x 1, BackwardArgs,
            backward::rows::<_, Ring<$x, $params, 2, 1>, $x, $params, $v, $r>);
    };
}

#[cfg(target_feature = "sm_90")]
mod rings {
    use super::*;

    ring!(forward_f32_v1r4_ring, backward_rows_f32_v1r4_ring, f32, f32, 1, 4, 512 x 1);
    ring!(forward_f32_v4r2_ring, backward_rows_f32_v4r2_ring, f32, f32, 4, 2, 256 x 2);
    ring!(forward_f32_v8r1_ring, backward_rows_f32_v8r1_ring, f32, f32, 8, 1, 256 x 2);
    ring!(forward_f32_v16r1_ring, backward_rows_f32_v16r1_ring, f32, f32, 16, 1, 256 x 1);
    ring!(forward_f16_v1r4_ring, backward_rows_f16_v1r4_ring, f16, f16, 1, 4, 512 x 1);
    ring!(forward_f16_v4r2_ring, backward_rows_f16_v4r2_ring, f16, f16, 4, 2, 256 x 2);
    ring!(forward_f16_v8r1_ring, backward_rows_f16_v8r1_ring, f16, f16, 8, 1, 256 x 2);
    ring!(forward_f16w32_v1r4_ring, backward_rows_f16w32_v1r4_ring, f16, f32, 1, 4, 512 x 1);
    ring!(forward_f16w32_v4r2_ring, backward_rows_f16w32_v4r2_ring, f16, f32, 4, 2, 256 x 2);
    ring!(forward_f16w32_v8r1_ring, backward_rows_f16w32_v8r1_ring, f16, f32, 8, 1, 256 x 2);
    ring!(forward_bf16_v1r4_ring, backward_rows_bf16_v1r4_ring, bf16, bf16, 1, 4, 512 x 1);
    ring!(forward_bf16_v4r2_ring, backward_rows_bf16_v4r2_ring, bf16, bf16, 4, 2, 256 x 2);
    ring!(forward_bf16_v8r1_ring, backward_rows_bf16_v8r1_ring, bf16, bf16, 8, 1, 256 x 2);
    ring!(forward_bf16w32_v1r4_ring, backward_rows_bf16w32_v1r4_ring, bf16, f32, 1, 4, 512 x 1);
    ring!(forward_bf16w32_v4r2_ring, backward_rows_bf16w32_v4r2_ring, bf16, f32, 4, 2, 256 x 2);
    ring!(forward_bf16w32_v8r1_ring, backward_rows_bf16w32_v8r1_ring, bf16, f32, 8, 1, 256 x 2);
}
