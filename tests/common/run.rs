//! One forward and one backward of a layer, into poisoned memory.

use ferronorm::args::RowStats;
use ferronorm::{Device, Dtype, Gradients, LayerNorm, Result, Statistics, Tensor};
use reference::{Answer, Case, layer_norm, seed_case};

use super::assert_same;

/// The inputs of a run, rounded to a storage type.
#[derive(Clone)]
pub struct Inputs<E> {
    pub shape: [usize; 2],
    pub x: Vec<E>,
    pub w: Vec<E>,
    pub b: Vec<E>,
    pub dy: Vec<E>,
    pub eps: f32,
}

fn round<E: Dtype>(data: &[f64]) -> Vec<E> {
    data.iter().map(|value| E::from_f64(*value)).collect()
}

fn widen<E: Dtype>(data: &[E]) -> Vec<f64> {
    data.iter().map(|value| value.to_f64()).collect()
}

impl<E: Dtype> Inputs<E> {
    /// Rounds `case`, whose w is as long as its rows.
    pub fn new(case: &Case, eps: f32) -> Self {
        let columns = case.w.len();
        Inputs {
            shape: [case.x.len() / columns, columns],
            x: round(&case.x),
            w: round(&case.w),
            b: round(&case.b),
            dy: round(&case.dy),
            eps,
        }
    }

    /// The seed chapter's data.
    pub fn seed(rows: usize, columns: usize, seed: u64) -> Self {
        Self::new(&seed_case(rows, columns, seed), 1e-5)
    }

    /// These rows with w = 1, b = 0 and dy = 1.
    pub fn plain(columns: usize, x: &[f64], eps: f32) -> Self {
        let one = |len| vec![1.0; len];
        let case = Case { x: x.to_vec(), w: one(columns), b: vec![0.0; columns], dy: one(x.len()) };
        Self::new(&case, eps)
    }

    /// The right results, from the rounded inputs.
    pub fn right(&self) -> Answer {
        let Inputs { x, w, b, dy, eps, .. } = self;
        layer_norm(&widen(x), &widen(w), &widen(b), &widen(dy), *eps as f64)
    }

    /// Row `row` of one of the matrices.
    pub fn row<'a>(&self, matrix: &'a [E], row: usize) -> &'a [E] {
        &matrix[row * self.shape[1]..][..self.shape[1]]
    }
}

/// What a run gives.
#[derive(Clone)]
pub struct Outputs<E> {
    pub y: Vec<E>,
    pub stats: Vec<RowStats>,
    pub dx: Vec<E>,
    pub dw: Vec<E>,
    pub db: Vec<E>,
}

impl<E: Dtype> Outputs<E> {
    /// In f64.
    pub fn answer(&self) -> Answer {
        Answer {
            y: widen(&self.y),
            mean: self.stats.iter().map(|s| s.mean as f64 + s.mean_lo as f64).collect(),
            rstd: self.stats.iter().map(|s| s.rstd as f64).collect(),
            dx: widen(&self.dx),
            dw: widen(&self.dw),
            db: widen(&self.db),
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
        assert_same(&format!("{what}: dw"), &self.dw, &right.dw);
        assert_same(&format!("{what}: db"), &self.db, &right.db);
    }
}

/// mean, mean_lo and rstd of each row in turn.
fn flat(stats: &[RowStats]) -> Vec<f32> {
    stats.iter().flat_map(|s| [s.mean, s.mean_lo, s.rstd]).collect()
}

/// `len` NaNs.
pub fn nans<E: Dtype>(len: usize) -> Vec<E> {
    vec![E::from_f64(f64::NAN); len]
}

/// A tensor of NaN, so that an element that is not written shows.
pub fn poisoned<E: Dtype>(device: &Device, shape: [usize; 2]) -> Result<Tensor<E>> {
    Tensor::from_slice(device, &nans(shape[0] * shape[1]), shape)
}

/// Forward and backward of `inputs`.
///
/// What is written holds NaN before; so does the layer's scratch, since a backward of dy = NaN
/// comes first. The two forms of forward are held against each other.
pub fn run<E: Dtype>(layer: &LayerNorm, inputs: &Inputs<E>) -> Result<Outputs<E>> {
    let (device, shape @ [rows, columns]) = (layer.device(), inputs.shape);
    let x = Tensor::from_slice(device, &inputs.x, shape)?;
    let w = Tensor::from_slice(device, &inputs.w, [1, columns])?;
    let b = Tensor::from_slice(device, &inputs.b, [1, columns])?;

    let mut y = poisoned(device, shape)?;
    let mut statistics = Statistics::new(device, rows)?;
    layer.forward_into(&x, &w, &b, inputs.eps, &mut y, &mut statistics)?;
    let (y, stats) = (y.to_vec()?, statistics.to_vec()?);

    let (fresh, saved) = layer.forward(&x, &w, &b, inputs.eps)?;
    assert_same("y of forward and of forward_into", &fresh.to_vec()?, &y);
    let saved_stats = flat(&saved.statistics().to_vec()?);
    assert_same("statistics of forward and of forward_into", &saved_stats, &flat(&stats));

    let mut dy = poisoned(device, shape)?;
    let mut gradients = Gradients {
        dx: poisoned(device, shape)?,
        dw: poisoned(device, [1, columns])?,
        db: poisoned(device, [1, columns])?,
    };
    layer.backward_into(&saved, &dy, &mut gradients)?;
    dy.copy_from_slice(&inputs.dy)?;
    gradients.dx.copy_from_slice(&nans(rows * columns))?;
    gradients.dw.copy_from_slice(&nans(columns))?;
    gradients.db.copy_from_slice(&nans(columns))?;
    layer.backward_into(&saved, &dy, &mut gradients)?;
    let Gradients { dx, dw, db } = gradients;
    Ok(Outputs { y, stats, dx: dx.to_vec()?, dw: dw.to_vec()?, db: db.to_vec()? })
}
