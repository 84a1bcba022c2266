//! The PTX entry points.
//!
//! `<kernel>_<storage>_v<V>` reads global memory directly, `.._any` does so at any alignment, and
//! `.._early` has a block for each row ([`forward::row`]); `.._v<V>r<R>_ring` reads tiles of R rows
//! through the ring, and `.._shifted` does so at any alignment; `f16w32` has f32 weights. `threads x
//! blocks` are the most threads of a block, and the blocks for which it leaves registers on a
//! multiprocessor: forward through a ring wants 512 threads there (see `ring_threads` in
//! `host/plan/rows.rs`); the others as many as there can be without spills.

use half::{bf16, f16};

use crate::arch::GpuBlock;
use crate::args::{BackwardArgs, ColumnsArgs, ForwardArgs, LimitArgs};
use crate::feed::Direct;
use crate::{backward, columns, forward, limit, long};

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

macro_rules! forward {
    ($name:ident, $feed:ty, $x:ty, $params:ty, $v:literal, $r:literal, $max_threads:literal x $blocks:literal) => {
        entry!($name, $max_threads x $blocks, ForwardArgs,
            forward::rows::<_, $feed, $x, $params, $v, $r>);
    };
}

macro_rules! forward_row {
    ($name:ident, $x:ty, $v:literal, $max_threads:literal x $blocks:literal) => {
        entry!($name, $max_threads x $blocks, ForwardArgs, forward::row::row::<_, $x, $x, $v>);
    };
}

macro_rules! backward {
    ($name:ident, $feed:ty, $x:ty, $params:ty, $v:literal, $r:literal, $max_threads:literal) => {
        backward!($name, $feed, $x, $params, $v, $r, $max_threads, 0);
    };
    ($name:ident, $feed:ty, $x:ty, $params:ty, $v:literal, $r:literal, $max_threads:literal, $w:literal) => {
        entry!($name, $max_threads x 1, BackwardArgs,
            backward::rows::<_, $feed, $x, $params, $v, $r, $w>);
    };
}

forward!(forward_f64_v1_any, Direct<_, _, false>, f64, f64, 1, 1, 64 x 8);
forward!(forward_f64_v4_any, Direct<_, _, false>, f64, f64, 4, 1, 128 x 3);
forward!(forward_f64_v8_any, Direct<_, _, false>, f64, f64, 8, 1, 256 x 1);
backward!(backward_rows_f64_v1_any, Direct<_, _, false>, f64, f64, 1, 1, 256);
backward!(backward_rows_f64_v4_any, Direct<_, _, false>, f64, f64, 4, 1, 256);
backward!(backward_rows_f64_v8_any, Direct<_, _, false>, f64, f64, 8, 1, 256);
forward!(forward_f32_v1, Direct<_, _, true>, f32, f32, 1, 1, 64 x 8);
forward!(forward_f32_v1_any, Direct<_, _, false>, f32, f32, 1, 1, 64 x 8);
forward!(forward_f32_v3, Direct<_, _, true>, f32, f32, 3, 1, 128 x 6);
forward!(forward_f32_v4, Direct<_, _, true>, f32, f32, 4, 1, 128 x 6);
forward!(forward_f32_v3_any, Direct<_, _, false>, f32, f32, 3, 1, 128 x 6);
forward!(forward_f32_v4_any, Direct<_, _, false>, f32, f32, 4, 1, 128 x 3);
forward!(forward_f32_v8, Direct<_, _, true>, f32, f32, 8, 1, 512 x 1);
forward!(forward_f32_v8_any, Direct<_, _, false>, f32, f32, 8, 1, 512 x 1);
backward!(backward_rows_f32_v1, Direct<_, _, true>, f32, f32, 1, 1, 256);
backward!(backward_rows_f32_v1_any, Direct<_, _, false>, f32, f32, 1, 1, 256);
backward!(backward_rows_f32_v2, Direct<_, _, true>, f32, f32, 2, 1, 512);
backward!(backward_rows_f32_v2_any, Direct<_, _, false>, f32, f32, 2, 1, 512);
backward!(backward_rows_f32_v4, Direct<_, _, true>, f32, f32, 4, 1, 512);
backward!(backward_rows_f32_v4_any, Direct<_, _, false>, f32, f32, 4, 1, 512);
backward!(backward_rows_f32_v8, Direct<_, _, true>, f32, f32, 8, 1, 384);
backward!(backward_rows_f32_v8_any, Direct<_, _, false>, f32, f32, 8, 1, 384);
backward!(backward_rows_f32_v16, Direct<_, _, true>, f32, f32, 16, 1, 256);
backward!(backward_rows_f32_v16_any, Direct<_, _, false>, f32, f32, 16, 1, 256);
forward!(forward_f16_v1, Direct<_, _, true>, f16, f16, 1, 1, 64 x 8);
forward!(forward_f16_v1_any, Direct<_, _, false>, f16, f16, 1, 1, 64 x 8);
forward!(forward_f16_v3, Direct<_, _, true>, f16, f16, 3, 1, 128 x 8);
forward!(forward_f16_v4, Direct<_, _, true>, f16, f16, 4, 1, 128 x 5);
forward!(forward_f16_v3_any, Direct<_, _, false>, f16, f16, 3, 1, 128 x 5);
forward!(forward_f16_v4_any, Direct<_, _, false>, f16, f16, 4, 1, 128 x 3);
forward!(forward_f16_v8, Direct<_, _, true>, f16, f16, 8, 1, 256 x 2);
forward!(forward_f16_v8_any, Direct<_, _, false>, f16, f16, 8, 1, 256 x 1);
backward!(backward_rows_f16_v1, Direct<_, _, true>, f16, f16, 1, 1, 256);
backward!(backward_rows_f16_v1_any, Direct<_, _, false>, f16, f16, 1, 1, 256);
backward!(backward_rows_f16_v2, Direct<_, _, true>, f16, f16, 2, 1, 512);
backward!(backward_rows_f16_v3, Direct<_, _, true>, f16, f16, 3, 1, 384);
backward!(backward_rows_f16_v2_any, Direct<_, _, false>, f16, f16, 2, 1, 512);
backward!(backward_rows_f16_v3_any, Direct<_, _, false>, f16, f16, 3, 1, 384);
backward!(backward_rows_f16_v4, Direct<_, _, true>, f16, f16, 4, 1, 384);
backward!(backward_rows_f16_v4_any, Direct<_, _, false>, f16, f16, 4, 1, 384);
backward!(backward_rows_f16_v8, Direct<_, _, true>, f16, f16, 8, 1, 256);
backward!(backward_rows_f16_v8_any, Direct<_, _, false>, f16, f16, 8, 1, 256);
forward!(forward_f16w32_v1, Direct<_, _, true>, f16, f32, 1, 1, 64 x 8);
forward!(forward_f16w32_v1_any, Direct<_, _, false>, f16, f32, 1, 1, 64 x 8);
forward!(forward_f16w32_v3, Direct<_, _, true>, f16, f32, 3, 1, 128 x 4);
forward!(forward_f16w32_v4, Direct<_, _, true>, f16, f32, 4, 1, 128 x 4);
forward!(forward_f16w32_v3_any, Direct<_, _, false>, f16, f32, 3, 1, 128 x 5);
forward!(forward_f16w32_v4_any, Direct<_, _, false>, f16, f32, 4, 1, 128 x 3);
forward!(forward_f16w32_v8, Direct<_, _, true>, f16, f32, 8, 1, 256 x 2);
forward!(forward_f16w32_v8_any, Direct<_, _, false>, f16, f32, 8, 1, 256 x 1);
backward!(backward_rows_f16w32_v1, Direct<_, _, true>, f16, f32, 1, 1, 256);
backward!(backward_rows_f16w32_v1_any, Direct<_, _, false>, f16, f32, 1, 1, 256);
backward!(backward_rows_f16w32_v2, Direct<_, _, true>, f16, f32, 2, 1, 512);
backward!(backward_rows_f16w32_v3, Direct<_, _, true>, f16, f32, 3, 1, 384);
backward!(backward_rows_f16w32_v2_any, Direct<_, _, false>, f16, f32, 2, 1, 512);
backward!(backward_rows_f16w32_v3_any, Direct<_, _, false>, f16, f32, 3, 1, 384);
backward!(backward_rows_f16w32_v4, Direct<_, _, true>, f16, f32, 4, 1, 384);
backward!(backward_rows_f16w32_v4_any, Direct<_, _, false>, f16, f32, 4, 1, 384);
backward!(backward_rows_f16w32_v8, Direct<_, _, true>, f16, f32, 8, 1, 256);
backward!(backward_rows_f16w32_v8_any, Direct<_, _, false>, f16, f32, 8, 1, 256);
forward!(forward_bf16_v1, Direct<_, _, true>, bf16, bf16, 1, 1, 64 x 8);
forward!(forward_bf16_v1_any, Direct<_, _, false>, bf16, bf16, 1, 1, 64 x 8);
forward!(forward_bf16_v3, Direct<_, _, true>, bf16, bf16, 3, 1, 128 x 5);
forward!(forward_bf16_v4, Direct<_, _, true>, bf16, bf16, 4, 1, 128 x 4);
forward!(forward_bf16_v3_any, Direct<_, _, false>, bf16, bf16, 3, 1, 128 x 5);
forward!(forward_bf16_v4_any, Direct<_, _, false>, bf16, bf16, 4, 1, 128 x 3);
forward!(forward_bf16_v8, Direct<_, _, true>, bf16, bf16, 8, 1, 256 x 1);
forward!(forward_bf16_v8_any, Direct<_, _, false>, bf16, bf16, 8, 1, 256 x 1);
backward!(backward_rows_bf16_v1, Direct<_, _, true>, bf16, bf16, 1, 1, 256);
backward!(backward_rows_bf16_v1_any, Direct<_, _, false>, bf16, bf16, 1, 1, 256);
backward!(backward_rows_bf16_v2, Direct<_, _, true>, bf16, bf16, 2, 1, 512);
backward!(backward_rows_bf16_v3, Direct<_, _, true>, bf16, bf16, 3, 1, 384);
backward!(backward_rows_bf16_v2_any, Direct<_, _, false>, bf16, bf16, 2, 1, 512);
backward!(backward_rows_bf16_v3_any, Direct<_, _, false>, bf16, bf16, 3, 1, 384);
backward!(backward_rows_bf16_v4, Direct<_, _, true>, bf16, bf16, 4, 1, 384);
backward!(backward_rows_bf16_v4_any, Direct<_, _, false>, bf16, bf16, 4, 1, 384);
backward!(backward_rows_bf16_v8, Direct<_, _, true>, bf16, bf16, 8, 1, 256);
backward!(backward_rows_bf16_v8_any, Direct<_, _, false>, bf16, bf16, 8, 1, 256);
forward!(forward_bf16w32_v1, Direct<_, _, true>, bf16, f32, 1, 1, 64 x 8);
forward!(forward_bf16w32_v1_any, Direct<_, _, false>, bf16, f32, 1, 1, 64 x 8);
forward!(forward_bf16w32_v3, Direct<_, _, true>, bf16, f32, 3, 1, 128 x 4);
forward!(forward_bf16w32_v4, Direct<_, _, true>, bf16, f32, 4, 1, 128 x 3);
forward!(forward_bf16w32_v3_any, Direct<_, _, false>, bf16, f32, 3, 1, 128 x 5);
forward!(forward_bf16w32_v4_any, Direct<_, _, false>, bf16, f32, 4, 1, 128 x 3);
forward!(forward_bf16w32_v8, Direct<_, _, true>, bf16, f32, 8, 1, 256 x 1);
forward!(forward_bf16w32_v8_any, Direct<_, _, false>, bf16, f32, 8, 1, 256 x 1);
backward!(backward_rows_bf16w32_v1, Direct<_, _, true>, bf16, f32, 1, 1, 256);
backward!(backward_rows_bf16w32_v1_any, Direct<_, _, false>, bf16, f32, 1, 1, 256);
backward!(backward_rows_bf16w32_v2, Direct<_, _, true>, bf16, f32, 2, 1, 512);
backward!(backward_rows_bf16w32_v3, Direct<_, _, true>, bf16, f32, 3, 1, 384);
backward!(backward_rows_bf16w32_v2_any, Direct<_, _, false>, bf16, f32, 2, 1, 512);
backward!(backward_rows_bf16w32_v3_any, Direct<_, _, false>, bf16, f32, 3, 1, 384);
backward!(backward_rows_bf16w32_v4, Direct<_, _, true>, bf16, f32, 4, 1, 384);
backward!(backward_rows_bf16w32_v4_any, Direct<_, _, false>, bf16, f32, 4, 1, 384);
backward!(backward_rows_bf16w32_v8, Direct<_, _, true>, bf16, f32, 8, 1, 256);
backward!(backward_rows_bf16w32_v8_any, Direct<_, _, false>, bf16, f32, 8, 1, 256);

entry!(backward_columns_f64, 256, ColumnsArgs, columns::reduce::<_, f64>);
entry!(backward_columns_f32, 256, ColumnsArgs, columns::reduce::<_, f32>);
entry!(backward_columns_f16, 256, ColumnsArgs, columns::reduce::<_, f16>);
entry!(backward_columns_bf16, 256, ColumnsArgs, columns::reduce::<_, bf16>);

entry!(limit_f64, 256, LimitArgs, limit::elementwise::<_, f64, true>);
entry!(limit_f32, 256, LimitArgs, limit::elementwise::<_, f32, true>);
entry!(limit_f16, 256, LimitArgs, limit::elementwise::<_, f16, true>);
entry!(limit_bf16, 256, LimitArgs, limit::elementwise::<_, bf16, true>);

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
mod rings {
    use super::*;

    forward_row!(forward_f32_v1_early, f32, 1, 64 x 24);
    forward_row!(forward_f32_v3_early, f32, 3, 128 x 8);
    forward_row!(forward_f32_v4_early, f32, 4, 128 x 7);
    forward_row!(forward_f32_v8_early, f32, 8, 512 x 1);
    forward_row!(forward_f16_v1_early, f16, 1, 64 x 24);
    forward_row!(forward_f16_v3_early, f16, 3, 128 x 8);
    forward_row!(forward_f16_v4_early, f16, 4, 128 x 7);
    forward_row!(forward_f16_v8_early, f16, 8, 256 x 2);
    forward_row!(forward_bf16_v1_early, bf16, 1, 64 x 24);
    forward_row!(forward_bf16_v3_early, bf16, 3, 128 x 8);
    forward_row!(forward_bf16_v4_early, bf16, 4, 128 x 7);
    forward_row!(forward_bf16_v8_early, bf16, 8, 256 x 2);
    forward!(forward_f32_v1r4_ring, Ring<_, _, _, _, true, true>, f32, f32, 1, 4, 64 x 8);
    forward!(forward_f32_v3r2_ring, Ring<_, _, _, _, true, true>, f32, f32, 3, 2, 128 x 4);
    forward!(forward_f32_v4r2_ring, Ring<_, _, _, _, true, true>, f32, f32, 4, 2, 128 x 4);
    forward!(forward_f32_v8r1_ring, Ring<_, _, _, _, true, true>, f32, f32, 8, 1, 512 x 1);
    backward!(backward_rows_f32_v1r4_ring, Ring<_, _, _, _, true, true>, f32, f32, 1, 4, 256);
    backward!(backward_rows_f32_v2r1_ring, Ring<_, _, _, _, true, true>, f32, f32, 2, 1, 512);
    backward!(backward_rows_f32_v2r2_ring, Ring<_, _, _, _, true, true>, f32, f32, 2, 2, 512);
    backward!(backward_rows_f32_v4r1_ring, Ring<_, _, _, _, true, true>, f32, f32, 4, 1, 512);
    backward!(backward_rows_f32_v8r1_ring, Ring<_, _, _, _, true, false>, f32, f32, 8, 1, 384, 8);
    backward!(backward_rows_f32_v16r1_ring, Ring<_, _, _, _, true, false>, f32, f32, 16, 1, 256);
    forward!(forward_f16_v1r4_ring, Ring<_, _, _, _, true, true>, f16, f16, 1, 4, 64 x 8);
    forward!(forward_f16_v3r2_ring, Ring<_, _, _, _, true, true>, f16, f16, 3, 2, 128 x 4);
    forward!(forward_f16_v4r2_ring, Ring<_, _, _, _, true, true>, f16, f16, 4, 2, 128 x 4);
    forward!(forward_f16_v8r1_ring, Ring<_, _, _, _, true, true>, f16, f16, 8, 1, 256 x 1);
    backward!(backward_rows_f16_v1r4_ring, Ring<_, _, _, _, true, true>, f16, f16, 1, 4, 256);
    backward!(backward_rows_f16_v2r1_ring, Ring<_, _, _, _, true, true>, f16, f16, 2, 1, 512);
    backward!(backward_rows_f16_v2r2_ring, Ring<_, _, _, _, true, true>, f16, f16, 2, 2, 512);
    backward!(backward_rows_f16_v3r1_ring, Ring<_, _, _, _, true, true>, f16, f16, 3, 1, 384);
    backward!(backward_rows_f16_v4r1_ring, Ring<_, _, _, _, true, true>, f16, f16, 4, 1, 384);
    backward!(backward_rows_f16_v8r1_ring, Ring<_, _, _, _, true, true>, f16, f16, 8, 1, 256);
    forward!(forward_f16w32_v1r4_ring, Ring<_, _, _, _, true, true>, f16, f32, 1, 4, 64 x 8);
    forward!(forward_f16w32_v3r2_ring, Ring<_, _, _, _, true, true>, f16, f32, 3, 2, 128 x 4);
    forward!(forward_f16w32_v4r2_ring, Ring<_, _, _, _, true, true>, f16, f32, 4, 2, 128 x 3);
    forward!(forward_f16w32_v8r1_ring, Ring<_, _, _, _, true, true>, f16, f32, 8, 1, 256 x 1);
    backward!(backward_rows_f16w32_v1r4_ring, Ring<_, _, _, _, true, true>, f16, f32, 1, 4, 256);
    backward!(backward_rows_f16w32_v2r1_ring, Ring<_, _, _, _, true, true>, f16, f32, 2, 1, 512);
    backward!(backward_rows_f16w32_v2r2_ring, Ring<_, _, _, _, true, true>, f16, f32, 2, 2, 512);
    backward!(backward_rows_f16w32_v3r1_ring, Ring<_, _, _, _, true, true>, f16, f32, 3, 1, 384);
    backward!(backward_rows_f16w32_v4r1_ring, Ring<_, _, _, _, true, true>, f16, f32, 4, 1, 384);
    backward!(backward_rows_f16w32_v8r1_ring, Ring<_, _, _, _, true, true>, f16, f32, 8, 1, 256);
    forward!(forward_bf16_v1r4_ring, Ring<_, _, _, _, true, true>, bf16, bf16, 1, 4, 64 x 8);
    forward!(forward_bf16_v3r2_ring, Ring<_, _, _, _, true, true>, bf16, bf16, 3, 2, 128 x 4);
    forward!(forward_bf16_v4r2_ring, Ring<_, _, _, _, true, true>, bf16, bf16, 4, 2, 128 x 4);
    forward!(forward_bf16_v8r1_ring, Ring<_, _, _, _, true, true>, bf16, bf16, 8, 1, 256 x 1);
    backward!(backward_rows_bf16_v1r4_ring, Ring<_, _, _, _, true, true>, bf16, bf16, 1, 4, 256);
    backward!(backward_rows_bf16_v2r1_ring, Ring<_, _, _, _, true, true>, bf16, bf16, 2, 1, 512);
    backward!(backward_rows_bf16_v2r2_ring, Ring<_, _, _, _, true, true>, bf16, bf16, 2, 2, 512);
    backward!(backward_rows_bf16_v3r1_ring, Ring<_, _, _, _, true, true>, bf16, bf16, 3, 1, 384);
    backward!(backward_rows_bf16_v4r1_ring, Ring<_, _, _, _, true, true>, bf16, bf16, 4, 1, 384);
    backward!(backward_rows_bf16_v8r1_ring, Ring<_, _, _, _, true, true>, bf16, bf16, 8, 1, 256);
    forward!(forward_bf16w32_v1r4_ring, Ring<_, _, _, _, true, true>, bf16, f32, 1, 4, 64 x 8);
    forward!(forward_bf16w32_v3r2_ring, Ring<_, _, _, _, true, true>, bf16, f32, 3, 2, 128 x 4);
    forward!(forward_bf16w32_v4r2_ring, Ring<_, _, _, _, true, true>, bf16, f32, 4, 2, 128 x 3);
    forward!(forward_bf16w32_v8r1_ring, Ring<_, _, _, _, true, true>, bf16, f32, 8, 1, 256 x 1);
    backward!(backward_rows_bf16w32_v1r4_ring, Ring<_, _, _, _, true, true>, bf16, f32, 1, 4, 256);
    backward!(backward_rows_bf16w32_v2r1_ring, Ring<_, _, _, _, true, true>, bf16, f32, 2, 1, 512);
    backward!(backward_rows_bf16w32_v2r2_ring, Ring<_, _, _, _, true, true>, bf16, f32, 2, 2, 512);
    backward!(backward_rows_bf16w32_v3r1_ring, Ring<_, _, _, _, true, true>, bf16, f32, 3, 1, 384);
    backward!(backward_rows_bf16w32_v4r1_ring, Ring<_, _, _, _, true, true>, bf16, f32, 4, 1, 384);
    backward!(backward_rows_bf16w32_v8r1_ring, Ring<_, _, _, _, true, true>, bf16, f32, 8, 1, 256);
    forward!(forward_f32_v1r4_shifted, Ring<_, _, _, _, false, true>, f32, f32, 1, 4, 64 x 8);
    forward!(forward_f32_v3r2_shifted, Ring<_, _, _, _, false, true>, f32, f32, 3, 2, 128 x 4);
    forward!(forward_f32_v4r2_shifted, Ring<_, _, _, _, false, true>, f32, f32, 4, 2, 128 x 4);
    forward!(forward_f32_v8r1_shifted, Ring<_, _, _, _, false, true>, f32, f32, 8, 1, 512 x 1);
    backward!(backward_rows_f32_v1r4_shifted, Ring<_, _, _, _, false, true>, f32, f32, 1, 4, 256);
    backward!(backward_rows_f32_v2r1_shifted, Ring<_, _, _, _, false, true>, f32, f32, 2, 1, 512);
    backward!(backward_rows_f32_v2r2_shifted, Ring<_, _, _, _, false, true>, f32, f32, 2, 2, 512);
    backward!(backward_rows_f32_v4r1_shifted, Ring<_, _, _, _, false, true>, f32, f32, 4, 1, 512);
    backward!(backward_rows_f32_v8r1_shifted, Ring<_, _, _, _, false, true>, f32, f32, 8, 1, 384);
    backward!(backward_rows_f32_v16r1_shifted, Ring<_, _, _, _, false, true>, f32, f32, 16, 1, 256);
    forward!(forward_f16_v1r4_shifted, Ring<_, _, _, _, false, true>, f16, f16, 1, 4, 64 x 8);
    forward!(forward_f16_v3r2_shifted, Ring<_, _, _, _, false, true>, f16, f16, 3, 2, 128 x 4);
    forward!(forward_f16_v4r2_shifted, Ring<_, _, _, _, false, true>, f16, f16, 4, 2, 128 x 3);
    forward!(forward_f16_v8r1_shifted, Ring<_, _, _, _, false, true>, f16, f16, 8, 1, 256 x 1);
    backward!(backward_rows_f16_v1r4_shifted, Ring<_, _, _, _, false, true>, f16, f16, 1, 4, 256);
    backward!(backward_rows_f16_v2r1_shifted, Ring<_, _, _, _, false, true>, f16, f16, 2, 1, 512);
    backward!(backward_rows_f16_v2r2_shifted, Ring<_, _, _, _, false, true>, f16, f16, 2, 2, 512);
    backward!(backward_rows_f16_v3r1_shifted, Ring<_, _, _, _, false, true>, f16, f16, 3, 1, 384);
    backward!(backward_rows_f16_v4r1_shifted, Ring<_, _, _, _, false, true>, f16, f16, 4, 1, 384);
    backward!(backward_rows_f16_v8r1_shifted, Ring<_, _, _, _, false, true>, f16, f16, 8, 1, 256);
    forward!(forward_bf16_v1r4_shifted, Ring<_, _, _, _, false, true>, bf16, bf16, 1, 4, 64 x 8);
    forward!(forward_bf16_v3r2_shifted, Ring<_, _, _, _, false, true>, bf16, bf16, 3, 2, 128 x 4);
    forward!(forward_bf16_v4r2_shifted, Ring<_, _, _, _, false, true>, bf16, bf16, 4, 2, 128 x 3);
    forward!(forward_bf16_v8r1_shifted, Ring<_, _, _, _, false, true>, bf16, bf16, 8, 1, 256 x 1);
    backward!(backward_rows_bf16_v1r4_shifted, Ring<_, _, _, _, false, true>, bf16, bf16, 1, 4, 256);
    backward!(backward_rows_bf16_v2r1_shifted, Ring<_, _, _, _, false, true>, bf16, bf16, 2, 1, 512);
    backward!(backward_rows_bf16_v2r2_shifted, Ring<_, _, _, _, false, true>, bf16, bf16, 2, 2, 512);
    backward!(backward_rows_bf16_v3r1_shifted, Ring<_, _, _, _, false, true>, bf16, bf16, 3, 1, 384);
    backward!(backward_rows_bf16_v4r1_shifted, Ring<_, _, _, _, false, true>, bf16, bf16, 4, 1, 384);
    backward!(backward_rows_bf16_v8r1_shifted, Ring<_, _, _, _, false, true>, bf16, bf16, 8, 1, 256);
}
