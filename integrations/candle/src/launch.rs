//! Forward and backward on the memory of a [`Place`].

use std::ffi::c_void;
use std::ptr;

use candle_core::backend::BackendStorage;
use candle_core::{Error, Result};
use ferronorm::Options;
use ferronorm::args::{RowStats, Rows, RowsMut};
use ferronorm::plan::{DataType, Storage};
use ferronorm::raw::{Call, Gradients, Scratch};

use crate::norm::Norm;
use crate::place::{Arg, Place, data_type, matrix};

/// y, and the rows' statistics for backward.
pub(crate) fn forward<P: Place>(
    norm: &Norm,
    place: &P,
    x: Arg<'_, P::Storage>,
    w: Arg<'_, P::Storage>,
    b: Option<Arg<'_, P::Storage>>,
) -> Result<(P::Storage, P::Bytes)> {
    let (call, _inputs) = call(norm, place, x, w, b)?;
    let mut y = place.tensor(x.1.shape(), x.0.dtype())?;
    let mut stats = place.bytes(call.rows * statistics(call.storage))?;
    {
        let (ptr, _y) = place.write(&mut y)?;
        let rows = RowsMut { ptr, stride: call.columns };
        let plan = call.plan_forward(place.info(), rows, Options::default());
        let plan = plan.map_err(Error::wrap)?;
        let mut parts = place.bytes(plan.parts)?;
        let (stats, _stats) = place.write_bytes(&mut stats);
        let (parts, _parts) = place.write_bytes(&mut parts);
        // SAFETY: the plan is this call's; candle's layouts lie within their memory; y has x's
        // shape, statistics and scratch the sizes that they need, and all of it is new, so that
        // nothing overlaps.
        unsafe { place.forward(&plan, &call.forward(rows, stats, parts))? };
    }
    Ok((y, stats))
}

/// What backward is to compute: dx, dw, db.
pub(crate) type Want = [bool; 3];

/// The gradients that are wanted, of x and w as forward got them, and of a b like w.
pub(crate) fn backward<P: Place>(
    norm: &Norm,
    place: &P,
    [x, w, dy]: [Arg<'_, P::Storage>; 3],
    stats: &P::Bytes,
    want: Want,
) -> Result<[Option<P::Storage>; 3]> {
    let (call, _inputs) = call(norm, place, x, w, None)?;
    let (dy, _dy) = rows(place, dy, "dy")?;
    let tensor = |like: Arg<'_, P::Storage>, want: bool| {
        want.then(|| place.tensor(like.1.shape(), like.0.dtype())).transpose()
    };
    let mut dx = tensor(x, want[0])?;
    let mut dw = tensor(w, want[1])?;
    let mut db = tensor(w, want[2])?;
    {
        let (dx, _dx) = target(place, &mut dx)?;
        let (dw, _dw) = target(place, &mut dw)?;
        let (db, _db) = target(place, &mut db)?;
        let dx = RowsMut { ptr: dx, stride: call.columns };
        let gradients = Gradients { dy, dx, dw, db };
        let plan = call.plan_backward(place.info(), &gradients, Options::default());
        let plan = plan.map_err(Error::wrap)?;
        let mut sums = place.bytes(plan.sums())?;
        let mut locks = place.zeros(plan.locks() * size_of::<u32>())?;
        let mut parts = place.bytes(plan.parts)?;
        let (sums, _sums) = place.write_bytes(&mut sums);
        let (locks, _locks) = place.write_bytes(&mut locks);
        let (parts, _parts) = place.write_bytes(&mut parts);
        let (stats, _stats) = place.read_bytes(stats);
        let scratch = Scratch { sums, locks: locks.cast(), parts };
        let (rows, columns) = call.backward(&plan, &gradients, stats, scratch);
        // SAFETY: the plan is this call's; candle's layouts lie within their memory; `Norm` has seen
        // that dy has x's shape and type, and kept the statistics of this x; gradients have the
        // shapes of what they are of, scratch has the plan's sizes, and all of it is new, so that
        // nothing overlaps.
        unsafe { place.backward(&plan, &rows, &columns)? };
    }
    Ok([dx, dw, db])
}

/// The call of x, w and b, and what must live until it is launched.
fn call<'a, P: Place>(
    norm: &Norm,
    place: &'a P,
    x: Arg<'a, P::Storage>,
    w: Arg<'a, P::Storage>,
    b: Option<Arg<'a, P::Storage>>,
) -> Result<(Call, [Option<P::Guard<'a>>; 3])> {
    let storage = Storage {
        x: data_type(x.0.dtype(), norm.op())?,
        params: data_type(w.0.dtype(), norm.op())?,
    };
    let shape = matrix(x.1, "x").map_err(Error::wrap)?;
    let (x, guard_x) = rows(place, x, "x")?;
    let (w, guard_w) = rows(place, w, "w")?;
    let (b, guard_b) = match b {
        Some(b) => rows(place, b, "b").map(|(b, guard)| (b, Some(guard)))?,
        None => (Rows::NONE, None),
    };
    let call = Call {
        rows: shape.rows,
        columns: shape.columns,
        storage,
        eps: norm.eps(),
        rms: norm.is_rms(),
        x,
        w: w.ptr,
        b: b.ptr,
    };
    Ok((call, [Some(guard_x), Some(guard_w), guard_b]))
}

/// A tensor's rows, to be read.
fn rows<'a, P: Place>(
    place: &'a P,
    tensor: Arg<'a, P::Storage>,
    argument: &'static str,
) -> Result<(Rows, P::Guard<'a>)> {
    let Arg(storage, layout) = tensor;
    let stride = matrix(layout, argument).map_err(Error::wrap)?.stride;
    let (ptr, guard) = place.read(storage)?;
    let offset = layout.start_offset() * storage.dtype().size_in_bytes();
    Ok((Rows { ptr: ptr.wrapping_byte_add(offset), stride }, guard))
}

/// A gradient, to be written; null where there is none.
fn target<'a, P: Place>(
    place: &'a P,
    gradient: &'a mut Option<P::Storage>,
) -> Result<(*mut c_void, Option<P::Guard<'a>>)> {
    match gradient {
        Some(gradient) => place.write(gradient).map(|(ptr, guard)| (ptr, Some(guard))),
        None => Ok((ptr::null_mut(), None)),
    }
}

/// Bytes of a row's statistics.
fn statistics(storage: Storage) -> usize {
    match storage.x.real() {
        DataType::F64 => size_of::<RowStats<f64>>(),
        _ => size_of::<RowStats<f32>>(),
    }
}
