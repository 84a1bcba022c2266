//! A row's sums to its statistics, and these to x_hat. [`crate::forward`] says what is done and why.

use crate::args::{ForwardArgs, RowStats, Scalar};
use crate::element::{Element, Lanes, Pack};
use crate::mean::Count;
use crate::real::{Real, rsqrt, two_sum};

/// A row is gone over again if the square of what the rough mean is off is more than this many
/// times the variance.
pub const FAR: Scalar = Scalar { double: 4.0, single: 4.0 };

/// Whether results show an error in the last bit of T. Those of 16 bits do not.
#[inline(always)]
pub(crate) const fn fine<E: Element>() -> bool {
    E::LANES < 8
}

/// How many packs the rough mean is taken from. What the squares lose by its error shows in the last
/// bit of f32 results (y off by 2.75e-8 with 1 pack, 2.5e-8 with 4), and not in those of 16 bits.
#[inline(always)]
pub(crate) const fn rough_packs<E: Element>() -> usize {
    if fine::<E>() { 4 } else { 1 }
}

/// What makes statistics of a row's sums.
#[derive(Clone, Copy)]
pub(crate) struct Moments<T> {
    count: Count<T>,
    eps: T,
    rms: bool,
    pub(crate) weight_offset: T,
}

impl<T: Real> Moments<T> {
    #[inline(always)]
    pub(crate) fn new(args: &ForwardArgs) -> Self {
        Moments {
            count: Count::new(&args.extent),
            eps: T::of(args.eps),
            rms: args.rms,
            weight_offset: T::of(args.weight_offset),
        }
    }

    /// A rough mean, from the row's first packs: any number would do, one near the mean does best.
    #[inline(always)]
    pub(crate) fn rough<E: Element<Real = T>>(self, mut first: impl FnMut(usize) -> Pack) -> T {
        if self.rms {
            return T::ZERO;
        }
        let mut sum = E::unpack(first(0));
        for pack in 1..rough_packs::<E>() {
            let more = E::unpack(first(pack));
            for l in 0..E::LANES {
                sum[l] += more[l];
            }
        }
        let inverse = T::of(Scalar::from(1.0 / (E::LANES * rough_packs::<E>()) as f64));
        sum.tree_sum() * inverse
    }

    /// The rough mean, from the row's sum.
    #[inline(always)]
    pub(crate) fn mean(self, sum: T) -> T {
        if self.rms { T::ZERO } else { self.count.mean(sum) }
    }

    /// Whether rows are to be gone over again, and if so, from which rough means at which scale.
    #[inline(always)]
    pub(crate) fn again<const R: usize>(
        self,
        rough: &mut [T; R],
        scale: &mut [T; R],
        sums: &[[T; 2]; R],
    ) -> bool {
        let mut again = false;
        for r in 0..R {
            let [sd, sdd] = sums[r];
            let lo = self.count.mean(sd);
            if !sdd.finite() {
                // If that does not help, nothing does.
                again |= scale[r] == T::ONE;
                scale[r] = T::SMALL;
            } else if !self.rms && sd * lo > T::of(FAR) * (-sd).fma(lo, sdd) {
                again = true;
                rough[r] += lo / scale[r];
            }
        }
        again
    }

    /// The statistics, from the rough mean and what [`spread_of`] gives for the row at this scale; with
    /// `rstd_lo`, if results are so `fine`. (It costs 3 % of the time of short rows of f16.)
    #[inline(always)]
    pub(crate) fn stats(self, rough: T, [sd, sdd]: [T; 2], scale: T, fine: bool) -> RowStats<T> {
        let sd = if self.rms { T::ZERO } else { sd };
        let lo = self.count.mean(sd);
        let var = self.count.mean((-sd).fma(lo, sdd));
        // Rounding may leave a constant row a variance just below zero. (NaN stays NaN.)
        let var = if var < T::ZERO { T::ZERO } else { var };
        let lo = if scale == T::ONE { lo } else { lo * T::LARGE };
        let (mean, mean_lo) = two_sum(rough, lo);
        let eps = self.eps * scale * scale;
        let (rstd, rstd_lo) =
            if fine { rsqrt(two_sum(var, eps)) } else { ((var + eps).inverse_root(), T::ZERO) };
        RowStats { mean, mean_lo, rstd: scale * rstd, rstd_lo: scale * rstd_lo }
    }
}

/// x_hat = (x - mean - mean_lo) * (rstd + rstd_lo), in two operations per element, or three.
#[derive(Clone, Copy)]
pub(crate) struct Hat<T> {
    mean: T,
    pub(crate) rstd: T,
    rstd_lo: T,
    shift: T,
}

impl<T: Real> Hat<T> {
    #[inline(always)]
    pub(crate) fn new(stats: RowStats<T>) -> Self {
        let RowStats { mean, mean_lo, rstd, rstd_lo } = stats;
        Hat { mean, rstd, rstd_lo, shift: -(mean_lo * rstd) }
    }

    /// x_hat of an x of E.
    #[inline(always)]
    pub(crate) fn of<E: Element<Real = T>>(self, x: T) -> T {
        let d = x - self.mean;
        let shift = if fine::<E>() { d.fma(self.rstd_lo, self.shift) } else { self.shift };
        d.fma(self.rstd, shift)
    }
}
