//! LayerNorm for NVIDIA GPUs in pure Rust: forward, and a two-stage backward whose partial weight
//! gradients meet under per-group compare-and-swap locks. No C or CUDA source anywhere; the same
//! kernel source runs on the CPU, bit for bit.
//!
//! ```
//! use ferronorm::{Device, LayerNorm, Tensor};
//!
//! # fn main() -> Result<(), ferronorm::Error> {
//! let device = Device::auto()?; // a GPU if there is one, else the CPU
//! let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 4.0, 4.0], [2, 3])?;
//! let w = Tensor::from_slice(&device, &[1.0f32; 3], [3])?;
//! let b = Tensor::from_slice(&device, &[0.5f32; 3], [3])?;
//!
//! let layer = LayerNorm::new(&device);
//! let (y, saved) = layer.forward(&x, &w, &b, 1e-5)?;
//! assert_eq!(y.to_vec()?[3..], [0.5; 3]); // a constant row gives b
//!
//! let dy = Tensor::from_slice(&device, &[1.0f32; 6], [2, 3])?;
//! let gradients = layer.backward(&saved, &dy)?;
//! assert_eq!(gradients.db.unwrap().to_vec()?, [2.0; 3]);
//! # Ok(())
//! # }
//! ```
//!
//! Layers, from safe to raw, each usable without the one before it:
//!
//! - [`LayerNorm`], [`Tensor`], [`Device`]: owned memory, checked shapes, one stream per device;
//! - [`raw::Kernels`]: the launches, on device pointers and a stream of yours;
//! - [`plan`] and [`ptx`]: which kernel to launch and how, and the PTX text; they know nothing of
//!   any CUDA binding.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

pub mod device;
pub mod driver;
mod error;
mod layer_norm;
pub mod layout;
pub mod limit;
pub mod plan;
pub mod ptx;
pub mod raw;
mod scratch;
mod tensor;
mod view;

pub use device::Device;
pub use error::Error;
pub use kernels::args;
pub use layer_norm::{
    Gradients, Inputs, KernelTimes, LayerNorm, Outputs, Residual, Saved, Statistics, Target,
    Targets, Upstream,
};
pub use plan::{Mode, Options, Reduction, Tile};
pub use tensor::{Dtype, Tensor};
pub use view::{View, ViewMut};

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

// Layers and tensors are made on one thread and used on another.
const _: () = {
    const fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<Device>();
    send_and_sync::<LayerNorm>();
    send_and_sync::<Tensor<f32>>();
    send_and_sync::<Statistics<f32>>();
    send_and_sync::<View<'_, f32>>();
    send_and_sync::<ViewMut<'_, f32>>();
    send_and_sync::<raw::Kernels>();
};
