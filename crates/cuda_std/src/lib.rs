//! What a GPU kernel in Rust needs of the machine, on rustc's own `nvptx64-nvidia-cuda` target.
//!
//! The crate keeps the names of Rust-CUDA's `cuda_std` (`thread::thread_idx_x`,
//! `thread::sync_threads`, `warp`, …), so that a kernel written on one reads the same on the
//! other. It has no code of its own on any other target: there it is empty.
//!
//! Two rules hold throughout, each learned from a hang or a wrong result:
//!
//! - **Convergent operations** (barriers, shuffles) go through LLVM's intrinsics, never through
//!   `asm!`: LLVM may copy an `asm!` block into both arms of a divergent branch, and a barrier that
//!   only half of a block reaches is a deadlock. `asm!` is for what one thread does alone.
//! - **Everything is `#[inline(always)]`**: rustc emits each crate's assembly apart, and what is
//!   left un-inlined would be an external function that no linker resolves.
#![no_std]
#![cfg(target_arch = "nvptx64")]
#![feature(abi_unadjusted, asm_experimental_arch, f16, link_llvm_intrinsics)]
#![allow(internal_features)]

pub mod atomic;
#[cfg(target_feature = "sm_90")]
pub mod bulk;
pub mod float;
#[cfg(target_feature = "sm_90")]
pub mod grid;
pub mod mem;
mod quad;
pub mod shared;
pub mod shift;
pub mod thread;
pub mod warp;

/// Sets the most threads a block of `$entry` is launched with, and optionally the fewest blocks a
/// multiprocessor should hold.
///
/// rustc has no launch bounds: the macro leaves a comment in the assembly from which
/// `cuda_builder` writes `.maxntid` and `.minnctapersm`. Without the first, ptxas may use so many
/// registers that a large block cannot be launched.
#[macro_export]
macro_rules! launch_bounds {
    ($entry:ident, $max_threads:literal $(, $min_blocks:literal)?) => {
        core::arch::global_asm!(concat!(
            "// @launch_bounds ", stringify!($entry), " ", $max_threads $(, " ", $min_blocks)?
        ));
    };
}
