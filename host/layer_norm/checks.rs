//! What is checked before anything is launched or written.

use std::ffi::c_void;
use std::ptr;

use kernels::args::{Rows, RowsMut};

use super::{Inputs, LayerNorm, Saved, Statistics, Target, Targets, Upstream, pointer};
use crate::layout::{Layout, Matrix};
use crate::plan::{self, Storage, Work};
use crate::{Device, Dtype, Error, Result, Tensor, View, ViewMut};

/// A call's arguments, as far as they are checked.
pub(super) struct Call {
    /// x as M rows of N.
    pub(super) matrix: Matrix,
    pub(super) residual: Rows,
    pub(super) dy: Rows,
    pub(super) dsum: Rows,
    storage: Storage,
    aligned: bool,
}

impl Call {
    /// The planner's view of it.
    pub(super) fn plan(&self, plain: bool) -> Work {
        let Matrix { rows, columns, .. } = self.matrix;
        Work { rows, columns, storage: self.storage, aligned: self.aligned, plain }
    }

    /// Takes note of where rows lie.
    fn align(&mut self, pointer: *const c_void, stride: usize) {
        let Call { matrix, storage, .. } = self;
        self.aligned &= plan::aligned(&[pointer as usize], &[stride], matrix.columns, storage.x);
    }
}

/// Where the gradients go.
pub(super) struct Places {
    pub(super) dx: RowsMut,
    /// What dx is added to.
    pub(super) add: Rows,
    pub(super) dw: *mut c_void,
    pub(super) db: *mut c_void,
    pub(super) want_dw: bool,
    pub(super) want_db: bool,
    pub(super) add_dw: bool,
    pub(super) add_db: bool,
}

impl LayerNorm {
    pub(super) fn check_inputs<E: Dtype, P: Dtype>(
        &self,
        inputs: &Inputs<'_, E, P>,
    ) -> Result<Call> {
        let Inputs { x, residual, w, b, eps } = inputs;
        self.check_device("x", x.device())?;
        let matrix = x.layout().matrix(self.dims, "x")?;
        let normalised = &x.shape()[x.shape().len() - self.dims..];
        for (argument, vector) in [("w", w), ("b", b)] {
            if let Some(vector) = vector {
                self.check_vector(argument, vector, normalised)?;
            }
        }
        let pair = Storage { x: E::DTYPE, params: P::DTYPE };
        let storage = match (w, b) {
            (None, None) => Storage::of(E::DTYPE),
            _ if Storage::ALL.contains(&pair) => pair,
            _ => return Err(Error::Dtypes { x: pair.x, w: pair.params }),
        };
        if !(eps.is_finite() && *eps >= 0.0) {
            return Err(Error::Epsilon { found: *eps });
        }
        let none = Rows::NONE;
        let mut call =
            Call { matrix, residual: none, dy: none, dsum: none, storage, aligned: true };
        call.align(x.as_ptr().cast(), matrix.stride);
        call.align(pointer(*w), 0);
        call.align(pointer(*b), 0);
        if let Some(residual) = residual {
            call.residual = self.check_rows("residual", *residual, x.layout(), &mut call)?;
        }
        Ok(call)
    }

    pub(super) fn check_upstream<E: Dtype, P: Dtype>(
        &self,
        saved: &Saved<'_, E, P>,
        upstream: &Upstream<'_, E>,
    ) -> Result<Call> {
        let inputs = Inputs { residual: None, ..saved.inputs };
        let mut call = self.check_inputs(&inputs)?;
        self.check_statistics(&saved.statistics, call.matrix.rows)?;
        call.dy = self.check_rows("dy", upstream.dy, inputs.x.layout(), &mut call)?;
        if let Some(dsum) = upstream.dsum {
            call.dsum = self.check_rows("dsum", dsum, inputs.x.layout(), &mut call)?;
        }
        Ok(call)
    }

    pub(super) fn check_targets<E: Dtype, P: Dtype>(
        &self,
        saved: &Saved<'_, E, P>,
        targets: Targets<'_, E, P>,
        call: &mut Call,
    ) -> Result<Places> {
        let Inputs { x, w, b, .. } = &saved.inputs;
        let (mut dx, mut add) = (RowsMut::NONE, Rows::NONE);
        if let Some(target) = targets.dx {
            let accumulate = matches!(target, Target::Accumulate(_));
            let (Target::Overwrite(mut view) | Target::Accumulate(mut view)) = target;
            dx = self.check_output("dx", &mut view, x.layout(), call)?;
            if accumulate {
                add = Rows { ptr: dx.ptr, stride: dx.stride };
            }
        }
        let (dw, add_dw) = self.check_parameter("dw", targets.dw, "w", *w)?;
        let (db, add_db) = self.check_parameter("db", targets.db, "b", *b)?;
        let (want_dw, want_db) = (!dw.is_null(), !db.is_null());
        Ok(Places { dx, add, dw, db, want_dw, want_db, add_dw, add_db })
    }

    /// The sum is given if and only if there is a residual.
    pub(super) fn check_sum<E: Dtype>(
        &self,
        sum: &mut Option<ViewMut<'_, E>>,
        x: &Layout,
        call: &mut Call,
    ) -> Result<RowsMut> {
        match (sum, call.residual.ptr.is_null()) {
            (None, true) => Ok(RowsMut::NONE),
            (Some(sum), false) => self.check_output("sum", sum, x, call),
            (Some(_), true) => Err(Error::Absent { given: "sum", absent: "residual" }),
            (None, false) => Err(Error::Absent { given: "residual", absent: "sum" }),
        }
    }

    /// A tensor of x's shape that is read.
    fn check_rows<E: Dtype>(
        &self,
        argument: &'static str,
        view: View<'_, E>,
        x: &Layout,
        call: &mut Call,
    ) -> Result<Rows> {
        self.check_device(argument, view.device())?;
        check_shape(argument, view.shape(), x.shape())?;
        let stride = view.layout().matrix(self.dims, argument)?.stride;
        let ptr = view.as_ptr().cast();
        call.align(ptr, stride);
        Ok(Rows { ptr, stride })
    }

    /// A tensor of x's shape that is written.
    pub(super) fn check_output<E: Dtype>(
        &self,
        argument: &'static str,
        view: &mut ViewMut<'_, E>,
        x: &Layout,
        call: &mut Call,
    ) -> Result<RowsMut> {
        self.check_device(argument, view.device())?;
        check_shape(argument, view.shape(), x.shape())?;
        let matrix = view.layout().matrix(self.dims, argument)?;
        view.layout().distinct_rows(matrix, argument)?;
        let ptr = view.as_mut_ptr().cast();
        call.align(ptr, matrix.stride);
        Ok(RowsMut { ptr, stride: matrix.stride })
    }

    pub(super) fn check_statistics<E: Dtype>(
        &self,
        statistics: &Statistics<E>,
        rows: usize,
    ) -> Result<()> {
        self.check_device("statistics", statistics.0.device())?;
        let found = statistics.0.len();
        if found == rows {
            Ok(())
        } else {
            Err(Error::Length { argument: "statistics", found, expected: rows })
        }
    }

    /// Where the gradient of a parameter goes (nowhere: null), and whether it is added.
    fn check_parameter<P: Dtype>(
        &self,
        gradient: &'static str,
        target: Option<Target<&mut Tensor<P>>>,
        argument: &'static str,
        parameter: Option<&Tensor<P>>,
    ) -> Result<(*mut c_void, bool)> {
        let Some(target) = target else {
            return Ok((ptr::null_mut(), false));
        };
        let Some(parameter) = parameter else {
            return Err(Error::Absent { given: gradient, absent: argument });
        };
        let accumulate = matches!(target, Target::Accumulate(_));
        let (Target::Overwrite(tensor) | Target::Accumulate(tensor)) = target;
        self.check_vector(gradient, tensor, parameter.shape())?;
        Ok((tensor.as_mut_ptr().cast(), accumulate))
    }

    fn check_vector<P: Dtype>(
        &self,
        argument: &'static str,
        vector: &Tensor<P>,
        normalised: &[usize],
    ) -> Result<()> {
        self.check_device(argument, vector.device())?;
        check_shape(argument, vector.shape(), normalised)
    }

    fn check_device(&self, argument: &'static str, device: &Device) -> Result<()> {
        self.device.check_same(argument, device)
    }
}

fn check_shape(argument: &'static str, found: &[usize], expected: &[usize]) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Shape { argument, found: found.to_vec(), expected: expected.to_vec() })
}
