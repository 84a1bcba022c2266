//! The compiled instances of the kernels: PTX entry points on a GPU, plain functions on the CPU.
//!
//! An instance is a kernel, a storage type, V packs per thread and row, R rows per tile, and a feed.
//! `host/plan.rs` picks one; what there is to pick from is listed here and in `nvptx.rs`.

#[cfg(not(target_arch = "nvptx64"))]
pub mod cpu;
#[cfg(target_arch = "nvptx64")]
mod nvptx;

/// Threads of a block of stage 2.
pub const COLUMN_THREADS: usize = 1024;
