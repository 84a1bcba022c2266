//! LayerNorm kernels: one source for NVIDIA GPUs and for the CPU, with the same bits on both.
//!
//! A kernel body ([`forward`], [`backward`], [`columns`]) is written for a whole block of threads
//! as a sequence of phases, against the traits [`Block`] and [`Feed`]. `arch` implements the
//! traits twice: on a GPU a phase runs once per hardware thread, on the CPU it loops over the
//! block's threads. Between phases control flow is uniform, so a barrier in divergent code cannot
//! be written.
//!
//! | the seed's function              | here                                     |
//! |----------------------------------|------------------------------------------|
//! | `_layernorm_forward`             | [`forward::rows`], [`forward::row::row`] |
//! | `_layernorm_backward_dLdx`       | [`backward::rows`]                       |
//! | `_layernorm_backward_dLdw_dLdb`  | [`columns::reduce`]                      |
#![no_std]
// An array that is iterated by value goes to local memory on a GPU: kernels index.
#![allow(clippy::needless_range_loop)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

#[cfg(not(target_arch = "nvptx64"))]
extern crate std;

mod arch;
pub mod args;
pub mod backward;
pub mod block;
pub mod columns;
pub mod element;
pub mod entry;
pub mod feed;
pub mod forward;
pub mod limit;
pub mod lock;
pub mod long;
mod mean;
pub mod memory;
pub mod moments;
pub mod real;

pub use block::Block;
pub use element::{Element, Pack, Params};
pub use feed::Feed;
pub use real::Real;

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // Never linked: the PTX check fails on a kernel that still holds a panic path.
    loop {}
}
