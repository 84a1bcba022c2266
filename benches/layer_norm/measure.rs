//! The times of one N, after a check of the results.

use std::time::{Duration, Instant};

use ferronorm::{
    Device, Dtype, Gradients, Inputs, LayerNorm, Mode, Options, Outputs, Reduction, Result,
    Statistics, Tensor, limit,
};
use half::{bf16, f16};
use reference::{Case, Error, Norm, layer_norm, seed_case};

use crate::results::{GROUP_LOCKS, LIMIT, OWN, SEED, Times, Type};

const EPS: f64 = 1e-5;

/// Rows that are checked, and then repeated: more take the reference too long.
const CHECKED_ROWS: usize = 256;

pub struct Bench {
    pub device: Device,
    pub rows: usize,
    pub options: Options,
    repeats: usize,
    /// Larger than the L2 cache, which it pushes everything out of.
    flush: Tensor<f32>,
}

/// What one N took, in microseconds.
pub struct Measured {
    pub forward: Times,
    pub backward: Times,
    /// A call of forward and one of backward, on the host; it waits for neither.
    pub host: Option<f64>,
}

impl Bench {
    pub fn new(device: Device, rows: usize, repeats: usize, options: Options) -> Result<Bench> {
        let flush = Tensor::zeros(&device, [if device.is_gpu() { 64 << 20 } else { 0 }])?;
        Ok(Bench { device, rows, options, repeats, flush })
    }

    pub fn measure(&mut self, dtype: Type, columns: usize) -> Result<Measured> {
        match dtype {
            Type::F64 => self.measure_as::<f64>(columns),
            Type::F32 => self.measure_as::<f32>(columns),
            Type::F16 => self.measure_as::<f16>(columns),
            Type::Bf16 => self.measure_as::<bf16>(columns),
        }
    }

    fn measure_as<E: Dtype>(&mut self, columns: usize) -> Result<Measured> {
        let seed = Options { mode: Mode::Seed, ..Options::default() };
        let locks = Options { reduction: Reduction::GroupLocks, ..self.options };
        let layers = [(OWN, self.options), (GROUP_LOCKS, locks), (SEED, seed)]
            .map(|(name, options)| (name, LayerNorm::with_options(&self.device, options)));
        let case = seed_case(self.rows.min(CHECKED_ROWS), columns, 0);
        check::<E>(&self.device, &case, &layers)?;

        let Problem { x, w, b, dy } = Problem::<E>::new(&self.device, &case, self.rows)?;
        let (_, layer) = &layers[0];
        let (mut y, saved) = layer.forward(&x, &w, &b, EPS)?;
        let mut statistics = Statistics::new(&self.device, self.rows)?;
        let mut gradients = Gradients::new(&self.device, &saved)?;
        let inputs = Inputs { x: x.view(), residual: None, w: Some(&w), b: Some(&b), eps: EPS };
        let mut run_forward = |y: &mut Tensor<E>| {
            let (y, statistics) = (y.view_mut(), &mut statistics);
            layer.forward_into(&inputs, Outputs { y, sum: None, statistics })
        };
        let (mut forward, mut backward) = (Times::new(), Times::new());
        forward.insert(OWN.into(), Some(self.time(|| run_forward(&mut y))?));
        for (name, layer) in &layers {
            let us = self.time(|| layer.backward_into(&saved, &dy, &mut gradients))?;
            backward.insert((*name).into(), Some(us));
        }
        // Elements that are no whole packs have no limit.
        if x.len().is_multiple_of(E::LANES) {
            forward.insert(LIMIT.into(), Some(self.time(|| limit::copy(&x, &mut y))?));
            let us = self.time(|| limit::add(&x, &dy, &mut gradients.dx))?;
            backward.insert(LIMIT.into(), Some(us));
        }
        let calls = || {
            self.device.synchronize()?;
            let start = Instant::now();
            run_forward(&mut y)?;
            layer.backward_into(&saved, &dy, &mut gradients)?;
            Ok(start.elapsed())
        };
        let host = if self.device.is_gpu() { Some(median(self.repeats, calls)?) } else { None };
        Ok(Measured { forward, backward, host })
    }

    /// What `call` takes on the device, in microseconds.
    fn time(&mut self, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
        let Bench { device, repeats, flush, .. } = self;
        median(*repeats, || {
            flush.clear()?;
            device.time(&mut call)
        })
    }
}

/// The median time of some calls, in microseconds.
fn median(repeats: usize, mut call: impl FnMut() -> Result<Duration>) -> Result<f64> {
    let mut times = (0..repeats.max(1)).map(|_| call()).collect::<Result<Vec<_>>>()?;
    times.sort();
    Ok(times[times.len() / 2].as_secs_f64() * 1e6)
}

/// A case, rounded to E.
struct Problem<E> {
    x: Tensor<E>,
    w: Tensor<E>,
    b: Tensor<E>,
    dy: Tensor<E>,
}

impl<E: Dtype> Problem<E> {
    /// `rows` rows: those of the case, again and again.
    fn new(device: &Device, case: &Case, rows: usize) -> Result<Self> {
        let columns = case.w.len();
        let round = |data: &[f64]| -> Vec<E> { data.iter().map(|v| E::from_f64(*v)).collect() };
        let vector = |data: &[f64]| Tensor::from_slice(device, &round(data), [columns]);
        let matrix = |data: &[f64]| {
            let data: Vec<E> = round(data).into_iter().cycle().take(rows * columns).collect();
            Tensor::from_slice(device, &data, [rows, columns])
        };
        let (x, w, b, dy) =
            (matrix(&case.x)?, vector(&case.w)?, vector(&case.b)?, matrix(&case.dy)?);
        Ok(Problem { x, w, b, dy })
    }
}

/// Stops the run if results are wrong: a wrong kernel has no speed.
fn check<E: Dtype>(device: &Device, case: &Case, layers: &[(&str, LayerNorm)]) -> Result<()> {
    let columns = case.w.len();
    let Problem { x, w, b, dy } = Problem::<E>::new(device, case, case.x.len() / columns.max(1))?;
    let values = |tensor: &Tensor<E>| -> Result<Vec<f64>> {
        Ok(tensor.to_vec()?.into_iter().map(E::to_f64).collect())
    };
    let near = |name: &str, found: &Tensor<E>, right: &[f64]| {
        let error = Error::of(values(found)?, right);
        assert!(error.relative_l2 < 5e-3, "{name}, N = {columns}: wrong results: {error:?}");
        Ok(())
    };
    let (left, upstream) = (values(&x)?, values(&dy)?);
    let right = layer_norm(&left, &values(&w)?, &values(&b)?, &upstream, Norm::layer(EPS));
    for (name, layer) in layers {
        let (y, saved) = layer.forward(&x, &w, &b, EPS)?;
        let Gradients { dx, dw, db } = layer.backward(&saved, &dy)?;
        let given = "forward had w and b";
        near(name, &y, &right.y)?;
        near(name, &dx, &right.dx)?;
        near(name, &dw.expect(given), &right.dw)?;
        near(name, &db.expect(given), &right.db)?;
    }
    if x.len().is_multiple_of(E::LANES) {
        let sums: Vec<f64> = left.iter().zip(&upstream).map(|(x, dy)| x + dy).collect();
        let mut out = Tensor::zeros(device, x.shape())?;
        limit::copy(&x, &mut out)?;
        near(LIMIT, &out, &left)?;
        limit::add(&x, &dy, &mut out)?;
        near(LIMIT, &out, &sums)?;
    }
    Ok(())
}
