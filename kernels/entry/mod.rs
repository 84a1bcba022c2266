//! The compiled instances of the kernels: PTX entry points on a GPU, plain functions on the CPU.
//!
//! An instance is a kernel, its storage types, V packs per thread and row, R rows per tile, and a
//! feed. `host/plan.rs` picks one; what there is to pick from is listed in `instance.rs` and
//! `nvptx.rs`.

#[cfg(not(target_arch = "nvptx64"))]
pub mod cpu;
#[cfg(not(target_arch = "nvptx64"))]
pub mod instance;
#[cfg(target_arch = "nvptx64")]
mod nvptx;

/// Threads of a block of stage 2.
pub const COLUMN_THREADS: usize = 256;

/// Threads of a block of the copy or the addition that speed is compared with.
pub const LIMIT_THREADS: usize = 256;

/// Threads of a block of the kernels that split rows.
pub const LONG_THREADS: usize = 256;
