//! The mutations: LayerNorm written plainly once more, with one term wrong.

use ferronorm::Dtype;
use ferronorm::plan::DataType;
use reference::{Answer, Norm, seed_case};

use super::common::{Inputs, round, widen};

macro_rules! mutations {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Mutation {
            $($(#[$doc])* $name,)*
        }

        impl Mutation {
            pub const ALL: &[Mutation] = &[$($name),*];
        }
    };
}

mutations! {
    /// dx without mean(g).
    NoMeanG,
    /// dx with mean(g) taken off twice.
    MeanGTwice,
    /// dx without x_hat * mean(g * x_hat).
    NoMeanGHat,
    /// dx not multiplied by rstd.
    NoDxRstd,
    /// dx of g = dy.
    NoDxWeight,
    /// dx without the gradient of the sum.
    NoDsum,
    /// dw of x - mean.
    NoDwRstd,
    /// dw of x * rstd.
    NoDwMean,
    /// dw without the last row.
    NoDwLastRow,
    /// db without the last row.
    NoDbLastRow,
    /// y without b.
    NoBias,
    /// y without w.
    NoWeight,
    /// w in place of 1 + w.
    NoWeightOffset,
    /// Statistics and x_hat of x alone.
    NoResidual,
    /// 1 / (sqrt(var) + eps).
    EpsOutside,
    /// 1 / sqrt(var).
    NoEps,
    /// The variance's sum divided by N - 1.
    Bessel,
    /// RMSNorm of x - mean.
    RmsMean,
    /// RMSNorm with mean(g) in dx.
    RmsMeanG,
    /// y as x * (w * rstd) + (b - mean * rstd * w), in the precision of the calculation.
    FoldedBias,
    /// x_hat from a mean of one number.
    OneMean,
    /// The variance as mean(x^2) - mean^2, in the precision of the calculation.
    SquareMean,
}

use Mutation::*;

impl Mutation {
    /// The results that it makes wrong.
    pub fn wrong(self) -> &'static [&'static str] {
        match self {
            NoMeanG | MeanGTwice | NoMeanGHat | NoDxRstd | NoDxWeight | NoDsum | RmsMeanG => {
                &["dx"]
            }
            NoDwRstd | NoDwMean | NoDwLastRow => &["dw"],
            NoDbLastRow => &["db"],
            NoBias | NoWeight | FoldedBias => &["y"],
            NoWeightOffset => &["y", "dx"],
            NoResidual | EpsOutside | NoEps | Bessel | RmsMean | OneMean | SquareMean => {
                &["y", "dx", "dw"]
            }
        }
    }

    /// Whether it is a rounding that 16 bits hide: an f32 calculation errs by less there.
    pub fn is_rounding(self) -> bool {
        matches!(self, FoldedBias | OneMean | SquareMean)
    }

    /// Data that shows it: few columns and rows, so that one of each counts, and no mean that is 0.
    pub fn inputs<E: Dtype, P: Dtype>(self) -> Inputs<E, P> {
        let (rows, columns) = (9, 21);
        let (mut case, more) = (seed_case(rows, columns, 21), seed_case(rows, columns, 22));
        case.dy.iter_mut().for_each(|dy| *dy += 0.1);
        let mut norm = Norm::layer(1e-5);
        match self {
            // eps and the variance are then of one size.
            EpsOutside | NoEps => norm.eps = 0.1,
            NoWeightOffset => norm.weight_offset = 1.0,
            RmsMean | RmsMeanG => norm.rms = true,
            FoldedBias | OneMean | SquareMean => case.x.iter_mut().for_each(|x| *x += 1e4),
            // So that g and x_hat have much to do with each other.
            NoMeanGHat => case.dy.iter_mut().zip(&case.x).for_each(|(dy, x)| *dy += 0.1 * x),
            _ => {}
        }
        let mut inputs = Inputs { norm, ..Inputs::new(&case, norm.eps) };
        if self == NoDsum || self == NoResidual {
            inputs.residual = Some(round(&more.x));
            inputs.dsum = Some(round(&more.dy));
        }
        inputs
    }
}

/// The formulae of `reference::layer_norm`, each step in the precision of the calculation where
/// `mutation` is a rounding; with no mutation they give the right results.
pub fn answer<E: Dtype, P: Dtype>(inputs: &Inputs<E, P>, mutation: Option<Mutation>) -> Answer {
    let is = |other: Mutation| mutation == Some(other);
    let single = mutation.is_some_and(Mutation::is_rounding) && E::DTYPE.real() == DataType::F32;
    let r = |value: f64| if single { value as f32 as f64 } else { value };
    let (norm, [rows, columns], n) = (inputs.norm, inputs.shape, inputs.shape[1] as f64);
    let x = if is(NoResidual) { widen(&inputs.x) } else { widen(&inputs.normalised()) };
    let dy = widen(&inputs.dy);
    let offset = if is(NoWeightOffset) { 0.0 } else { norm.weight_offset };
    let w: Vec<f64> = widen(inputs.w.as_deref().unwrap_or_default());
    let w: Vec<f64> = w.iter().map(|w| w + offset).collect();
    let b = widen(inputs.b.as_deref().unwrap_or_default());
    let average = |of: &dyn Fn(usize) -> f64| (0..columns).map(of).sum::<f64>() / n;

    let mut answer = Answer { dw: vec![0.0; columns], db: vec![0.0; columns], ..Answer::default() };
    for row in 0..rows {
        let (x, dy) = (&x[row * columns..][..columns], &dy[row * columns..][..columns]);
        let centred = !norm.rms || is(RmsMean);
        let mu = if centred { average(&|c| x[c]) } else { 0.0 };
        let mu = if is(OneMean) { r(mu) } else { mu };
        // With `mu`, a mean of twice the precision.
        let rest = if centred && !is(OneMean) { average(&|c| x[c] - mu) } else { 0.0 };
        let distance = |c: usize| (x[c] - mu) - rest;
        let squares = average(&|c| distance(c).powi(2));
        let var = match mutation {
            Some(Bessel) => squares * n / (n - 1.0),
            Some(SquareMean) => {
                let sums = (0..columns).fold((0.0, 0.0), |(sum, squares), c| {
                    (r(sum + x[c]), r(squares + r(x[c] * x[c])))
                });
                let mean = r(sums.0 / n);
                r(r(sums.1 / n) - r(mean * mean)).max(0.0)
            }
            _ => squares,
        };
        let rstd = match mutation {
            Some(EpsOutside) => 1.0 / (var.sqrt() + norm.eps),
            Some(NoEps) => 1.0 / var.sqrt(),
            _ => 1.0 / (var + norm.eps).sqrt(),
        };
        let hat = |c: usize| distance(c) * rstd;
        let g = |c: usize| if is(NoDxWeight) { dy[c] } else { dy[c] * w[c] };
        let times = match mutation {
            Some(NoMeanG) => 0.0,
            Some(MeanGTwice) => 2.0,
            _ if norm.rms && !is(RmsMeanG) => 0.0,
            _ => 1.0,
        };
        let mean_g = times * average(&g);
        let mean_g_hat = if is(NoMeanGHat) { 0.0 } else { average(&|c| g(c) * hat(c)) };
        for c in 0..columns {
            answer.y.push(match mutation {
                Some(FoldedBias) => {
                    let scale = r(w[c] * r(rstd));
                    r(r(x[c] * scale) + r(b[c] - r(r(mu) * scale)))
                }
                Some(NoBias) => hat(c) * w[c],
                Some(NoWeight) => hat(c) + b[c],
                _ => hat(c) * w[c] + b[c],
            });
            let scale = if is(NoDxRstd) { 1.0 } else { rstd };
            let dsum = match &inputs.dsum {
                Some(dsum) if !is(NoDsum) => dsum[row * columns + c].to_f64(),
                _ => 0.0,
            };
            answer.dx.push((g(c) - mean_g - hat(c) * mean_g_hat) * scale + dsum);
            let last = row + 1 == rows;
            answer.dw[c] += match mutation {
                Some(NoDwLastRow) if last => 0.0,
                Some(NoDwRstd) => dy[c] * distance(c),
                Some(NoDwMean) => dy[c] * x[c] * rstd,
                _ => dy[c] * hat(c),
            };
            answer.db[c] += if is(NoDbLastRow) && last { 0.0 } else { dy[c] };
        }
    }
    answer
}
