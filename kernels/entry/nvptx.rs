//! The PTX entry points, one line each.
//!
//! `<kernel>_<type>_v<V>` reads global memory directly, `.._any` does so at any alignment, and
//! `.._v<V>r<R>_ring` reads tiles of R rows through the ring. `threads x blocks` are the most
//! threads of a block, and the blocks for which forward leaves registers on a multiprocessor: with
//! 152 of them a thread, where 128 do, forward of 4096 f16 columns fell from 2842 to 2307 GB/s.

use half::{bf16, f16};

use crate::arch::GpuBlock;
use crate::args::{BackwardArgs, ColumnsArgs, ForwardArgs};
use crate::feed::Direct;
use crate::{backward, columns, forward};

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
    ($forward:ident, $backward:ident, $type:ty, $v:literal, $whole:literal, $max_threads:literal) => {
        entry!($forward, $max_threads x 1, ForwardArgs<$type>,
            forward::rows::<_, Direct<$type, 1, 2, $whole>, _, $v, 1>);
        entry!($backward, $max_threads x 1, BackwardArgs<$type>,
            backward::rows::<_, Direct<$type, 2, 1, $whole>, _, $v, 1>);
    };
}

direct!(forward_f32_v1, backward_rows_f32_v1, f32, 1, true, 512);
direct!(forward_f32_v1_any, backward_rows_f32_v1_any, f32, 1, false, 512);
direct!(forward_f32_v4, backward_rows_f32_v4, f32, 4, true, 256);
direct!(forward_f32_v4_any, backward_rows_f32_v4_any, f32, 4, false, 256);
direct!(forward_f32_v8, backward_rows_f32_v8, f32, 8, true, 256);
direct!(forward_f32_v8_any, backward_rows_f32_v8_any, f32, 8, false, 256);
direct!(forward_f32_v16, backward_rows_f32_v16, f32, 16, true, 256);
direct!(forward_f32_v16_any, backward_rows_f32_v16_any, f32, 16, false, 256);
direct!(forward_f16_v1, backward_rows_f16_v1, f16, 1, true, 512);
direct!(forward_f16_v1_any, backward_rows_f16_v1_any, f16, 1, false, 512);
direct!(forward_f16_v4, backward_rows_f16_v4, f16, 4, true, 256);
direct!(forward_f16_v4_any, backward_rows_f16_v4_any, f16, 4, false, 256);
direct!(forward_f16_v8, backward_rows_f16_v8, f16, 8, true, 256);
direct!(forward_f16_v8_any, backward_rows_f16_v8_any, f16, 8, false, 256);
direct!(forward_bf16_v1, backward_rows_bf16_v1, bf16, 1, true, 512);
direct!(forward_bf16_v1_any, backward_rows_bf16_v1_any, bf16, 1, false, 512);
direct!(forward_bf16_v4, backward_rows_bf16_v4, bf16, 4, true, 256);
direct!(forward_bf16_v4_any, backward_rows_bf16_v4_any, bf16, 4, false, 256);
direct!(forward_bf16_v8, backward_rows_bf16_v8, bf16, 8, true, 256);
direct!(forward_bf16_v8_any, backward_rows_bf16_v8_any, bf16, 8, false, 256);

entry!(backward_columns_f32, 1024, ColumnsArgs<f32>, columns::reduce);
entry!(backward_columns_f16, 1024, ColumnsArgs<f16>, columns::reduce);
entry!(backward_columns_bf16, 1024, ColumnsArgs<bf16>, columns::reduce);

#[cfg(target_feature = "sm_90")]
macro_rules! ring {
    ($forward:ident, $backward:ident, $type:ty, $v:literal, $r:literal, $max_threads:literal x $blocks:literal) => {
        entry!($forward, $max_threads x $blocks, ForwardArgs<$type>,
            forward::rows::<_, Ring<$type, 1, 2>, _, $v, $r>);
        entry!($backward, $max_threads x 1, BackwardArgs<$type>,
            backward::rows::<_, Ring<$type, 2, 1>, _, $v, $r>);
    };
}

#[cfg(target_feature = "sm_90")]
mod rings {
    use super::*;

    ring!(forward_f32_v1r4_ring, backward_rows_f32_v1r4_ring, f32, 1, 4, 512 x 1);
    ring!(forward_f32_v4r2_ring, backward_rows_f32_v4r2_ring, f32, 4, 2, 256 x 2);
    ring!(forward_f32_v8r1_ring, backward_rows_f32_v8r1_ring, f32, 8, 1, 256 x 2);
    ring!(forward_f32_v16r1_ring, backward_rows_f32_v16r1_ring, f32, 16, 1, 256 x 1);
    ring!(forward_f16_v1r4_ring, backward_rows_f16_v1r4_ring, f16, 1, 4, 512 x 1);
    ring!(forward_f16_v4r2_ring, backward_rows_f16_v4r2_ring, f16, 4, 2, 256 x 2);
    ring!(forward_f16_v8r1_ring, backward_rows_f16_v8r1_ring, f16, 8, 1, 256 x 2);
    ring!(forward_bf16_v1r4_ring, backward_rows_bf16_v1r4_ring, bf16, 1, 4, 512 x 1);
    ring!(forward_bf16_v4r2_ring, backward_rows_bf16_v4r2_ring, bf16, 4, 2, 256 x 2);
    ring!(forward_bf16_v8r1_ring, backward_rows_bf16_v8r1_ring, bf16, 8, 1, 256 x 2);
}
