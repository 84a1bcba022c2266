//! LayerNorm and RMSNorm for [candle](https://github.com/huggingface/candle) that train: ferronorm's
//! kernels as custom operations with a backward.
//!
//! candle-nn's own fused operations have none. They cut the gradient without a word: x, w and b get
//! nothing from `loss.backward()`. These have the names and arguments of candle-nn's, so a model
//! takes them by other `use` lines:
//!
//! ```
//! use candle_core::{DType, Device, Module, Tensor};
//! use candle_nn::{VarBuilder, VarMap};
//! use ferronorm_candle::layer_norm;
//!
//! # fn main() -> candle_core::Result<()> {
//! let variables = VarMap::new();
//! let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
//! let norm = layer_norm(3, 1e-5, builder)?;
//!
//! let x = Tensor::new(&[[1f32, 2., 3.], [4., 4., 4.]], &Device::Cpu)?;
//! let y = norm.forward(&x)?;
//! assert_eq!(y.to_vec2::<f32>()?[1], [0.; 3]); // a constant row gives b
//!
//! let gradients = y.sum_all()?.backward()?;
//! let db = gradients.get(norm.bias().unwrap()).unwrap();
//! assert_eq!(db.to_vec1::<f32>()?, [2.; 3]);
//! # Ok(())
//! # }
//! ```
//!
//! - [`layer_norm`], [`rms_norm`] and their like make layers from a `VarBuilder`, as candle-nn's do.
//! - [`ops`] has the operations themselves, on tensors.
//!
//! On candle's CPU the kernels run on threads of their own. With the feature `cuda` they run on a
//! CUDA tensor's memory where it lies, in candle's context and on its stream.

mod launch;
mod layers;
mod norm;
pub mod ops;
mod place;

pub use layers::{LayerNorm, RmsNorm, layer_norm, layer_norm_no_bias, rms_norm};
