//! What is checked before anything is launched or written.

use super::{LayerNorm, Statistics};
use crate::{Dtype, Error, Result, Tensor, plan};

impl LayerNorm {
    /// `tensor` is on the layer's device and has this shape.
    pub(super) fn check_tensor<E: Dtype>(
        &self,
        argument: &'static str,
        tensor: &Tensor<E>,
        expected: [usize; 2],
    ) -> Result<()> {
        self.device.check_same(argument, tensor.device())?;
        let found = tensor.shape();
        if found == expected { Ok(()) } else { Err(Error::Shape { argument, found, expected }) }
    }

    pub(super) fn check_statistics(&self, statistics: &Statistics, rows: usize) -> Result<()> {
        self.device.check_same("statistics", statistics.0.device())?;
        let found = statistics.0.len();
        if found == rows {
            Ok(())
        } else {
            Err(Error::Length { argument: "statistics", found, expected: rows })
        }
    }

    pub(super) fn check_forward<E: Dtype>(
        &self,
        x: &Tensor<E>,
        w: &Tensor<E>,
        b: &Tensor<E>,
        eps: f32,
    ) -> Result<()> {
        let [_, columns] = x.shape();
        self.check_tensor("x", x, x.shape())?;
        if columns == 0 || columns > plan::MAX_COLUMNS {
            return Err(Error::Columns { found: columns, most: plan::MAX_COLUMNS });
        }
        self.check_tensor("w", w, [1, columns])?;
        self.check_tensor("b", b, [1, columns])?;
        if !(eps.is_finite() && eps >= 0.0) {
            return Err(Error::Epsilon { found: eps });
        }
        Ok(())
    }

    pub(super) fn check_backward<E: Dtype>(
        &self,
        x: &Tensor<E>,
        w: &Tensor<E>,
        statistics: &Statistics,
        dy: &Tensor<E>,
    ) -> Result<()> {
        self.check_tensor("x", x, x.shape())?;
        self.check_tensor("w", w, [1, x.shape()[1]])?;
        self.check_statistics(statistics, x.shape()[0])?;
        self.check_tensor("dy", dy, x.shape())
    }
}
