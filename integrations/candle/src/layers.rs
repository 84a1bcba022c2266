//! Layers with candle-nn's construction. candle-nn's own hold the parameters; only forward differs.

use candle_core::{Module, Result, Tensor};
use candle_nn::{LayerNormConfig, VarBuilder};

use crate::ops;

/// LayerNorm, as `candle_nn::LayerNorm`, with a gradient. With `remove_mean` unset it is RMSNorm.
#[derive(Clone, Debug)]
pub struct LayerNorm(candle_nn::LayerNorm);

impl LayerNorm {
    /// Of parameters of one dimension, the length of a row.
    pub fn new(weight: Tensor, bias: Tensor, eps: f64) -> Self {
        LayerNorm(candle_nn::LayerNorm::new(weight, bias, eps))
    }

    /// Without a bias.
    pub fn new_no_bias(weight: Tensor, eps: f64) -> Self {
        LayerNorm(candle_nn::LayerNorm::new_no_bias(weight, eps))
    }

    /// RMSNorm: the mean is taken to be 0.
    pub fn rms_norm(weight: Tensor, eps: f64) -> Self {
        LayerNorm(candle_nn::LayerNorm::rms_norm(weight, eps))
    }

    /// w.
    pub fn weight(&self) -> &Tensor {
        self.0.weight()
    }

    /// b, if there is one.
    pub fn bias(&self) -> Option<&Tensor> {
        self.0.bias()
    }

    /// What is added to the variance.
    pub fn eps(&self) -> f64 {
        self.0.eps()
    }

    /// Whether it is LayerNorm rather than RMSNorm.
    pub fn remove_mean(&self) -> bool {
        self.0.remove_mean()
    }
}

/// Trains a layer of candle-nn's.
impl From<candle_nn::LayerNorm> for LayerNorm {
    fn from(layer: candle_nn::LayerNorm) -> Self {
        LayerNorm(layer)
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (w, eps) = (self.weight(), self.eps());
        match (self.remove_mean(), self.bias()) {
            (true, Some(b)) => ops::layer_norm(x, w, b, eps),
            (true, None) => ops::layer_norm_no_bias(x, w, eps),
            (false, Some(b)) => ops::rms_norm_with_bias(x, w, b, eps),
            (false, None) => ops::rms_norm(x, w, eps),
        }
    }
}

/// RMSNorm, as `candle_nn::RmsNorm`, with a gradient.
#[derive(Clone, Debug)]
pub struct RmsNorm(LayerNorm);

impl RmsNorm {
    /// Of a weight of one dimension, the length of a row.
    pub fn new(weight: Tensor, eps: f64) -> Self {
        RmsNorm(LayerNorm::rms_norm(weight, eps))
    }

    /// w.
    pub fn weight(&self) -> &Tensor {
        self.0.weight()
    }

    /// What is added to the mean square.
    pub fn eps(&self) -> f64 {
        self.0.eps()
    }
}

/// Trains a layer of candle-nn's.
impl From<candle_nn::RmsNorm> for RmsNorm {
    fn from(layer: candle_nn::RmsNorm) -> Self {
        RmsNorm(layer.into_inner().into())
    }
}

impl Module for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)
    }
}

/// A layer of the variables `weight` and, if `config` says so, `bias` (or `gamma` and `beta`, where
/// the builder has those).
///
/// # Errors
///
/// Those of the builder.
pub fn layer_norm<C: Into<LayerNormConfig>>(
    size: usize,
    config: C,
    builder: VarBuilder,
) -> Result<LayerNorm> {
    candle_nn::layer_norm(size, config, builder).map(LayerNorm)
}

/// A layer of the variable `weight`.
///
/// # Errors
///
/// Those of the builder.
pub fn layer_norm_no_bias(size: usize, eps: f64, builder: VarBuilder) -> Result<LayerNorm> {
    candle_nn::layer_norm_no_bias(size, eps, builder).map(LayerNorm)
}

/// An RMSNorm of the variable `weight`.
///
/// # Errors
///
/// Those of the builder.
pub fn rms_norm(size: usize, eps: f64, builder: VarBuilder) -> Result<RmsNorm> {
    candle_nn::rms_norm(size, eps, builder).map(RmsNorm::from)
}
