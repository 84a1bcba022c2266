//! The machine under the kernels: a GPU through `cuda_std`, or the CPU.

#[cfg(not(target_arch = "nvptx64"))]
mod cpu;
#[cfg(not(target_arch = "nvptx64"))]
mod cpu_feed;
#[cfg(not(target_arch = "nvptx64"))]
mod cpu_memory;
#[cfg(not(target_arch = "nvptx64"))]
mod half;
#[cfg(target_arch = "nvptx64")]
mod number;
#[cfg(target_arch = "nvptx64")]
mod nvptx;
#[cfg(all(target_arch = "nvptx64", target_feature = "sm_90"))]
mod ring;
#[cfg(target_arch = "nvptx64")]
mod unaligned;

#[cfg(not(target_arch = "nvptx64"))]
pub use cpu::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use cpu_feed::CpuFeed;
#[cfg(not(target_arch = "nvptx64"))]
pub use cpu_memory::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use half::*;
#[cfg(target_arch = "nvptx64")]
pub use number::*;
#[cfg(target_arch = "nvptx64")]
pub use nvptx::*;
#[cfg(all(target_arch = "nvptx64", target_feature = "sm_90"))]
pub use ring::Ring;
#[cfg(target_arch = "nvptx64")]
pub use unaligned::*;
