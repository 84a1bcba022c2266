//! One forward and one backward of a layer, into poisoned memory.

use ferronorm::args::RowStats;
use ferronorm::{
    Device, Dtype, Gradients, LayerNorm, Options, Outputs as Written, Result, Saved, Statistics,
    Tensor, Upstream,
};
use reference::{Answer, Case, Norm, layer_norm, seed_case};

use super::assert_same;

/// The inputs of a run, rounded to storage types: E for x and its like, P for w and b.
#[derive(Clone)]
pub struct Inputs<E, P = E> {
    /// M and N.
    pub shape: [usize; 2],
    pub x: Vec<E>,
    pub residual: Option<Vec<E>>,
    pub w: Option<Vec<P>>,
    pub b: Option<Vec<P>>,
    pub dy: Vec<E>,
    /// The gradient of the sum.
    pub dsum: Option<Vec<E>>,
    pub norm: Norm,
}

pub fn round<E: Dtype>(data: &[f64]) -> Vec<E> {
    data.iter().map(|value| E::from_f64(*value)).collect()
}

pub fn widen<E: Dtype>(data: &[E]) -> Vec<f64> {
    data.iter().map(|value| value.to_f64()).collect()
}

impl<E: Dtype, P: Dtype> Inputs<E, P> {
    /// Rounds `case`, whose w is as long as its rows.
    pub fn new(case: &Case, eps: f64) -> Self {
        let columns = case.w.len();
        Inputs {
            shape: [case.x.len() / columns.max(1), columns],
            x: round(&case.x),
            residual: None,
            w: Some(round(&case.w)),
            b: Some(round(&case.b)),
            dy: round(&case.dy),
            dsum: None,
            norm: Norm::layer(eps),
        }
    }

    /// The seed chapter's data.
    pub fn seed(rows: usize, columns: usize, seed: u64) -> Self {
        Inputs { shape: [rows, columns], ..Self::new(&seed_case(rows, columns, seed), 1e-5) }
    }

    /// These rows with w = 1, b = 0 and dy = 1.
    pub fn plain(columns: usize, x: &[f64], eps: f64) -> Self {
        let one = |len| vec![1.0; len];
        let case = Case { x: x.to_vec(), w: one(columns), b: vec![0.0; columns], dy: one(x.len()) };
        Self::new(&case, eps)
    }

    /// What is normalised: x, or the rounded sum with the residual.
    pub fn normalised(&self) -> Vec<E> {
        match &self.residual {
            None => self.x.clone(),
            Some(residual) => {
                let sum = |(x, residual): (&E, &E)| {
                    // Rounded to the precision of the calculation, then stored.
                    let sum = x.to_f64() + residual.to_f64();
                    let single = std::mem::size_of::<E>() < 8;
                    E::from_f64(if single { sum as f32 as f64 } else { sum })
                };
                self.x.iter().zip(residual).map(sum).collect()
            }
        }
    }

    /// The right results, from the rounded inputs. dw and db also where w and b are absent.
    pub fn right(&self) -> Answer {
        let columns = self.shape[1];
        let absent = 1.0 - self.norm.weight_offset;
        let w = self.w.as_ref().map_or(vec![absent; columns], |w| widen(w));
        let b = self.b.as_ref().map_or(vec![0.0; columns], |b| widen(b));
        let x = widen(&self.normalised());
        let mut answer = layer_norm(&x, &w, &b, &widen(&self.dy), self.norm);
        for (dx, dsum) in answer.dx.iter_mut().zip(self.dsum.iter().flatten()) {
            *dx += dsum.to_f64();
        }
        answer
    }

    /// Row `row` of one of the matrices.
    pub fn row<'a>(&self, matrix: &'a [E], row: usize) -> &'a [E] {
        &matrix[row * self.shape[1]..][..self.shape[1]]
    }

    /// A layer for these inputs.
    pub fn layer(&self, device: &Device, options: Options) -> LayerNorm {
        let Norm { rms, weight_offset, .. } = self.norm;
        let layer = if rms { LayerNorm::rms(device) } else { LayerNorm::new(device) };
        layer.options(options).weight_offset(weight_offset)
    }
}

/// What a run gives.
#[derive(Clone)]
pub struct Outputs<E: Dtype, P = E> {
    pub y: Vec<E>,
    pub sum: Option<Vec<E>>,
    pub stats: Vec<RowStats<E::Real>>,
    pub dx: Vec<E>,
    pub dw: Option<Vec<P>>,
    pub db: Option<Vec<P>>,
}

impl<E: Dtype, P: Dtype> Outputs<E, P> {
    /// In f64; empty for what is absent.
    pub fn answer(&self) -> Answer {
        let mean = |s: &RowStats<E::Real>| s.mean.into() + s.mean_lo.into();
        Answer {
            y: widen(&self.y),
            mean: self.stats.iter().map(mean).collect(),
            rstd: self.stats.iter().map(|s| s.rstd.into()).collect(),
            dx: widen(&self.dx),
            dw: self.dw.as_ref().map_or(vec![], |dw| widen(dw)),
            db: self.db.as_ref().map_or(vec![], |db| widen(db)),
        }
    }

    /// The results of row `row` alone; dw and db are of all rows, and absent.
    pub fn only_row(&self, inputs: &Inputs<E, P>, row: usize) -> Self {
        Outputs {
            y: inputs.row(&self.y, row).to_vec(),
            sum: None,
            stats: vec![self.stats[row]],
            dx: inputs.row(&self.dx, row).to_vec(),
            dw: None,
            db: None,
        }
    }

    /// The rows' results have the bits of `right`.
    pub fn assert_same_rows(&self, right: &Self, what: &str) {
        assert_same(&format!("{what}: y"), &self.y, &right.y);
        assert_same(&format!("{what}: statistics"), &flat(&self.stats), &flat(&right.stats));
        assert_same(&format!("{what}: dx"), &self.dx, &right.dx);
    }

    /// dw and db have the bits of `right`.
    pub fn assert_same_columns(&self, right: &Self, what: &str) {
        let same = |name: &str, found: &Option<Vec<P>>, right: &Option<Vec<P>>| match (found, right)
        {
            (Some(found), Some(right)) => assert_same(&format!("{what}: {name}"), found, right),
            (None, None) => {}
            _ => panic!("{what}: {name}: is there in one of two"),
        };
        same("dw", &self.dw, &right.dw);
        same("db", &self.db, &right.db);
    }
}

/// mean, mean_lo and rstd of each row in turn, exactly.
pub fn flat<T: Copy + Into<f64>>(stats: &[RowStats<T>]) -> Vec<f64> {
    stats.iter().flat_map(|s| [s.mean, s.mean_lo, s.rstd].map(Into::into)).collect()
}

/// `len` NaNs.
pub fn nans<E: Dtype>(len: usize) -> Vec<E> {
    vec![E::from_f64(f64::NAN); len]
}

/// A tensor of NaN, so that an element that is not written shows.
pub fn poisoned<E: Dtype>(device: &Device, shape: impl AsRef<[usize]>) -> Result<Tensor<E>> {
    let shape = shape.as_ref();
    Tensor::from_slice(device, &nans(shape.iter().product()), shape)
}

/// Forward and backward of `inputs`, by a layer for them.
///
/// What is written holds NaN before; so does the layer's scratch, since a backward of dy = NaN
/// comes first. The forms of forward that allocate and that do not are held against each other.
pub fn run<E: Dtype, P: Dtype>(layer: &LayerNorm, inputs: &Inputs<E, P>) -> Result<Outputs<E, P>> {
    let (device, shape @ [rows, columns]) = (layer.device(), inputs.shape);
    let matrix = |data: &Vec<E>| Tensor::from_slice(device, data, shape);
    let vector = |data: &Vec<P>| Tensor::from_slice(device, data, [columns]);
    let x = matrix(&inputs.x)?;
    let residual = inputs.residual.as_ref().map(matrix).transpose()?;
    let w = inputs.w.as_ref().map(vector).transpose()?;
    let b = inputs.b.as_ref().map(vector).transpose()?;
    let (w, b, eps) = (w.as_ref(), b.as_ref(), inputs.norm.eps);

    let mut y = poisoned(device, shape)?;
    let mut sum = residual.as_ref().map(|_| poisoned(device, shape)).transpose()?;
    let mut statistics = Statistics::new(device, rows)?;
    let arguments =
        ferronorm::Inputs { x: x.view(), residual: residual.as_ref().map(Tensor::view), w, b, eps };
    let written = Written {
        y: y.view_mut(),
        sum: sum.as_mut().map(Tensor::view_mut),
        statistics: &mut statistics,
    };
    layer.forward_into(&arguments, written)?;
    let (y, stats) = (y.to_vec()?, statistics.to_vec()?);

    let (fresh, fresh_stats) = match &residual {
        None => {
            let (fresh, saved) = layer.forward(&x, w, b, eps)?;
            (fresh, saved.statistics().to_vec()?)
        }
        Some(residual) => {
            let fresh = layer.forward_residual(&x, residual, w, b, eps)?;
            let right = sum.as_ref().map(Tensor::to_vec).transpose()?;
            assert_same("sum", &fresh.sum.to_vec()?, &right.unwrap_or_default());
            (fresh.y, fresh.statistics.to_vec()?)
        }
    };
    assert_same("y of forward and of forward_into", &fresh.to_vec()?, &y);
    assert_same("statistics of forward and of forward_into", &flat(&fresh_stats), &flat(&stats));

    let x = sum.as_ref().unwrap_or(&x).view();
    let saved = Saved::new(ferronorm::Inputs { x, ..arguments }, statistics);
    let dsum = inputs.dsum.as_ref().map(matrix).transpose()?;
    let mut dy = poisoned(device, shape)?;
    let mut gradients = Gradients::new(device, &saved)?;
    // The first backward leaves its NaNs in the scratch; then the outputs get some of their own.
    layer.backward_into(&saved, &dy, &mut gradients)?;
    dy.copy_from_slice(&inputs.dy)?;
    gradients.dx.copy_from_slice(&nans(rows * columns))?;
    for gradient in [&mut gradients.dw, &mut gradients.db].into_iter().flatten() {
        gradient.copy_from_slice(&nans(columns))?;
    }
    let upstream = Upstream { dy: dy.view(), dsum: dsum.as_ref().map(Tensor::view) };
    layer.backward_into(&saved, upstream, &mut gradients)?;
    let Gradients { dx, dw, db } = gradients;
    Ok(Outputs {
        y,
        sum: sum.map(|sum| sum.to_vec()).transpose()?,
        stats,
        dx: dx.to_vec()?,
        dw: dw.map(|dw| dw.to_vec()).transpose()?,
        db: db.map(|db| db.to_vec()).transpose()?,
    })
}
