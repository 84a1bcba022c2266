//! Forward by a block for each row, without a loop: it has nothing to set up, and a multiprocessor that
//! gets through its rows sooner is given more.
//!
//! ```text
//! load w, b, x and the packs of the rough mean, all at once
//! d = x - m;  sd = sum(d), sdd = sum(d * d)                                         (one collective)
//! again, if the row needs it
//! y = fma(x_hat, w, b)
//! ```
//!
//! The formulae are those of [`forward::rows`](super::rows), and so are the results, to the bit.
//!
//! What it takes is registers: the fewer, the more rows are under way. So w and b are held as they lie
//! in memory, and x too: it is unpacked in each pass anew (`arch::opaque_pack`), where the compiler
//! would keep what the first made of it. (f16, M = 4096, H200, with 96 and 72 registers: N = 1024: 9.4,
//! 8.6 us; 2048: 14.2, 13.2; 4096: 23.5, 21.9.)

use super::{MAX_PASSES, last_whole_pack, normalise_pack, spread_of};
use crate::Block;
use crate::arch;
use crate::args::ForwardArgs;
use crate::element::{Element, Pack, Params};
use crate::feed::{ones, param_packs};
use crate::memory::{self, valid_lanes};
use crate::moments::{Moments, fine};
use crate::real::Real;

/// The forward kernel of a block for each row, V packs per thread, for plain work: no residual, no
/// weight offset beside a weight.
///
/// # Safety
///
/// - `args.x` readable and `args.y` writable over (rows, columns), `w` and `b` (if not null) readable
///   over columns: whole packs on 16-byte boundaries; `stats` writable over rows. x and y are of E, w and
///   b of P.
/// - What is written overlaps nothing else, except that `y` may be `x` itself: the same pointer and
///   stride.
/// - 1 <= `columns`, at most V * `block.threads()` packs; `rows` blocks.
/// - Every block of the grid runs this with the same arguments.
#[inline(always)]
pub unsafe fn row<B: Block, E: Element, P: Params<E>, const V: usize>(
    block: &mut B,
    args: &ForwardArgs,
) {
    let (row, columns) = (block.index(), args.extent.columns);
    let moments = Moments::<E::Real>::new(args);
    // SAFETY: the row exists, and is as the caller promises.
    let x = |pack| unsafe { memory::load(true, args.x.row::<E>(row), columns, pack) };

    let threads = block.threads();
    let mut held = block.state(|thread| {
        let hold = |vector| {
            // SAFETY: the caller's promises on w and b.
            arch::from_fn(|v| unsafe {
                param_packs::<E, P>(true, vector, columns, v * threads + thread)
            })
        };
        // An absent weight is as ones.
        let ones = [[P::pack(ones::<P>()); 2]; V];
        let w = if args.w.is_null() { ones } else { hold(args.w) };
        Held { w, b: hold(args.b), x: arch::from_fn(|v| x(v * threads + thread)) }
    });
    let last = last_whole_pack::<E>(columns);
    let mut rough = [moments.rough::<E>(|pack| x(pack.min(last)))];
    let mut scale = [E::Real::ONE];

    let mut passes = arch::opaque(MAX_PASSES);
    let sums = loop {
        let threads = block.threads();
        let sums = block.sum(&mut held, |thread, Held { x, .. }| {
            let valid = |v| valid_lanes::<E>(columns, v * threads + thread);
            let sums = spread_of::<E, V>(x, valid, true, rough[0], scale[0]);
            for v in 0..V {
                x[v] = arch::opaque_pack(x[v]);
            }
            [sums]
        });
        passes -= 1;
        if passes == 0 || !moments.again(&mut rough, &mut scale, &sums) {
            break sums;
        }
    };
    let stats = moments.stats(rough[0], sums[0], scale[0], fine::<E>());

    let threads = block.threads();
    block.each(&mut held, |thread, Held { x, w, b }| {
        for v in 0..V {
            let (w, b) = (P::widen(w[v]), P::widen(b[v]));
            let y = normalise_pack::<E>(x[v], stats, w, b);
            // SAFETY: each thread stores its own packs of the row.
            unsafe {
                let row = args.y.row::<E>(row);
                memory::store(true, row, columns, v * threads + thread, y);
            }
        }
    });
    // SAFETY: the row is this block's alone.
    block.leader(|| unsafe { stats.store(args.stats, row) });
}

/// A thread's packs.
struct Held<const V: usize> {
    x: [Pack; V],
    w: [[Pack; 2]; V],
    b: [[Pack; 2]; V],
}

#[cfg(test)]
mod tests {
    use core::marker::PhantomData;
    use std::vec;
    use std::vec::Vec;

    use half::{bf16, f16};

    use super::*;
    use crate::arch::{CpuBlock, CpuFeed, Work, run};
    use crate::args::{Extent, RowStats, Rows, RowsMut};
    use crate::element::Lanes;
    use crate::forward::rows;

    /// A block of either kernel.
    struct Either<'a, E, const V: usize>(bool, &'a ForwardArgs, PhantomData<E>);

    impl<E: Element, const V: usize> Work for Either<'_, E, V> {
        fn run<const WIDE: bool>(self, block: &mut CpuBlock<WIDE>) {
            let Either(by_row, args, _) = self;
            // SAFETY: `results` makes arguments as both kernels want them.
            unsafe {
                if by_row {
                    row::<_, E, E, V>(block, args);
                } else {
                    rows::<_, CpuFeed<1, 2, true, false>, E, E, V, 1>(block, args);
                }
            }
        }
    }

    /// Rows whose first packs say little of the mean, whose squares overflow, that are constant or hold
    /// NaN, and plain ones.
    fn element(row: usize, column: usize) -> f64 {
        let noise = (7919 * column % 1009) as f64 / 1009.0 - 0.5;
        match row {
            0 if column >= 32 => 200.0 + noise,
            1 => 3e38 * noise,
            2 => 2.5,
            3 if column == 77 => f64::NAN,
            _ => noise,
        }
    }

    fn packs<E: Element>(value: impl Fn(usize) -> f64, columns: usize) -> Vec<Pack> {
        let pack = |pack| {
            let mut lanes = E::Lanes::ZERO;
            for l in 0..E::LANES {
                lanes[l] = E::Real::of(value(pack * E::LANES + l).into());
            }
            E::pack(lanes)
        };
        (0..columns / E::LANES).map(pack).collect()
    }

    const ROWS: usize = 5;

    /// y, and the statistics as bits.
    fn results<E: Element, const V: usize>(
        by_row: bool,
        columns: usize,
        (rms, with_w): (bool, bool),
    ) -> (Vec<Pack>, Vec<Vec<Pack>>) {
        let x: Vec<Pack> =
            (0..ROWS).flat_map(|row| packs::<E>(|column| element(row, column), columns)).collect();
        let w = packs::<E>(|column| element(4, column + 5) + 1.0, columns);
        let b = packs::<E>(|column| element(4, column + 9), columns);
        let mut y = vec![Pack::default(); x.len()];
        let mut stats = vec![RowStats::<E::Real>::default(); ROWS];
        let null = core::ptr::null();
        let args = ForwardArgs {
            extent: Extent::new(ROWS, columns),
            eps: 1e-5.into(),
            weight_offset: if with_w { 0.0.into() } else { 1.0.into() },
            rms,
            x: Rows { ptr: x.as_ptr().cast(), stride: columns },
            residual: Rows::NONE,
            w: if with_w { w.as_ptr().cast() } else { null },
            b: if rms { null } else { b.as_ptr().cast() },
            sum: RowsMut::NONE,
            y: RowsMut { ptr: y.as_mut_ptr().cast(), stride: columns },
            stats: stats.as_mut_ptr().cast(),
            parts: core::ptr::null_mut(),
        };
        let threads = columns.div_ceil(E::LANES * V).next_multiple_of(32);
        for index in 0..ROWS {
            let block = Either::<E, V>(by_row, &args, PhantomData);
            // SAFETY: nothing is asked of the processor.
            unsafe { run::<false>(block, index, ROWS, threads) };
        }
        let bits = |stats: &RowStats<E::Real>| {
            let RowStats { mean, mean_lo, rstd, rstd_lo } = *stats;
            [mean, mean_lo, rstd, rstd_lo].map(|number| {
                let mut lanes = <E::Real as Element>::Lanes::ZERO;
                lanes[0] = number;
                <E::Real as Element>::pack(lanes)
            })
        };
        (y, stats.iter().map(|stats| bits(stats).to_vec()).collect())
    }

    fn has_the_bits_of_rows<E: Element, const V: usize>(columns: &[usize]) {
        for &columns in columns {
            for how in [(false, true), (false, false), (true, true)] {
                let (found, right) =
                    (results::<E, V>(true, columns, how), results::<E, V>(false, columns, how));
                assert!(found == right, "V = {V}, N = {columns}, (rms, w): {how:?}");
                assert!(found.0.iter().any(|pack| *pack != Pack::default()));
            }
        }
    }

    #[test]
    fn a_block_a_row_has_the_bits_of_tiles() {
        has_the_bits_of_rows::<f32, 1>(&[80, 128, 256]);
        has_the_bits_of_rows::<f32, 3>(&[260, 384, 640, 1152]);
        has_the_bits_of_rows::<f32, 4>(&[264, 512, 1300, 2048]);
        has_the_bits_of_rows::<f32, 8>(&[2056, 5120]);
        has_the_bits_of_rows::<f16, 1>(&[80, 512]);
        has_the_bits_of_rows::<f16, 3>(&[520, 768, 2304]);
        has_the_bits_of_rows::<f16, 4>(&[520, 1024, 3000]);
        has_the_bits_of_rows::<f16, 8>(&[6144]);
        has_the_bits_of_rows::<bf16, 1>(&[80, 512]);
        has_the_bits_of_rows::<bf16, 3>(&[520, 1536]);
        has_the_bits_of_rows::<bf16, 4>(&[520, 1024, 4096]);
        has_the_bits_of_rows::<bf16, 8>(&[8192]);
    }
}
