//! What is drawn.

use ferronorm::plan::{Storage, longest_held};
use ferronorm::{Mode, Options, Reduction, Tile};
use proptest::bool::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use reference::Norm;

/// One forward and one backward.
#[derive(Clone, Debug)]
pub struct Problem {
    pub storage: Storage,
    pub leading: Vec<usize>,
    pub normalised: Vec<usize>,
    pub norm: Norm,
    pub options: Options,
    /// Whether there is a w, and whether a b.
    pub w: bool,
    pub b: bool,
    pub x: Place,
    pub residual: Option<Place>,
    /// Of no meaning without a residual.
    pub sum: Place,
    pub y: Place,
    pub dy: Place,
    pub dsum: Option<Place>,
    pub dx: Place,
    /// Of dx, dw and db.
    pub goes: [Goes; 3],
    pub data: Data,
}

/// Where a matrix lies in its tensor, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Of its first element.
    pub offset: usize,
    /// From row to row. 0: all rows are one.
    pub stride: usize,
}

/// Where a gradient goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goes {
    Nowhere,
    /// Over what is there.
    Over,
    /// Added to what is there.
    Onto,
}

#[derive(Clone, Copy, Debug)]
pub struct Data {
    pub seed: u64,
    /// Of x.
    pub mean: f64,
}

impl Problem {
    /// M and N.
    pub fn shape(&self) -> [usize; 2] {
        [self.leading.iter().product(), self.normalised.iter().product()]
    }
}

/// M 0..=40 in up to three dimensions.
fn leading() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        Just(vec![]),
        (0usize..=40).prop_map(|m| vec![m]),
        [0usize..=8, 0..=5].prop_map(Vec::from),
        [0usize..=3, 0..=3, 0..=4].prop_map(Vec::from),
    ]
}

/// N: tiny, about the ends of packs and warps, or any.
fn columns() -> impl Strategy<Value = usize> {
    let ends = select(vec![8, 16, 32, 64, 128, 256, 512, 1024]);
    prop_oneof![
        2 => 1usize..=9,
        2 => (ends, 0usize..=2).prop_map(|(end, more)| end + more - 1),
        1 => 1usize..=1100,
    ]
}

/// An offset, and a gap between rows.
fn place() -> impl Strategy<Value = (usize, usize)> {
    (0usize..=9, 0usize..=9)
}

fn goes() -> impl Strategy<Value = Goes> {
    select(vec![Goes::Over, Goes::Onto, Goes::Nowhere])
}

fn norms() -> impl Strategy<Value = Norm> {
    let eps = select(vec![1e-5, 1e-3, 1e-8]);
    (eps, any::<bool>(), select(vec![0.0, 1.0])).prop_map(|(eps, rms, weight_offset)| Norm {
        eps,
        rms,
        weight_offset,
    })
}

fn options() -> impl Strategy<Value = Options> {
    let few = || proptest::option::of(1u32..=9);
    (
        select(vec![Mode::Persistent, Mode::Seed]),
        select(vec![Tile::Auto, Tile::One, Tile::Several]),
        select(vec![Reduction::Auto, Reduction::GroupLocks, Reduction::Deterministic]),
        few(),
        few(),
    )
        .prop_map(|(mode, tile, reduction, blocks, groups)| Options {
            mode,
            blocks,
            // There must then be a group for each block.
            groups: groups.map(|g| if reduction == Reduction::Deterministic { 40 + g } else { g }),
            tile,
            reduction,
        })
}

pub fn problems() -> impl Strategy<Value = Problem> {
    let storage = select(Storage::ALL.to_vec());
    // Whether N is longer than a block holds; the first of two normalised dimensions; whether
    // all rows are whole packs on 16-byte boundaries, which apart from each other they never were.
    let shape = (leading(), columns(), weighted(0.05), proptest::option::of(1usize..=5));
    let aligned = any::<bool>();
    let places = ([place(), place(), place(), place(), place(), place(), place()], weighted(0.15));
    let there = (any::<[bool; 4]>(), [goes(), goes(), goes()]);
    let data = (any::<u8>(), select(vec![-2.3, 0.0, 100.0]))
        .prop_map(|(seed, mean)| Data { seed: seed.into(), mean });
    (storage, shape, aligned, places, there, norms(), options(), data).prop_map(
        |(storage, shape, aligned, places, there, norm, options, data)| {
            let (mut leading, mut columns, long, first) = shape;
            let unit = if aligned { storage.x.lanes() } else { 1 };
            if long {
                columns += longest_held(storage.x);
                leading.truncate(1);
                leading.iter_mut().for_each(|m| *m = (*m).min(2));
            }
            columns = columns.next_multiple_of(unit);
            let normalised = match first {
                None => vec![columns],
                Some(first) if columns % first == 0 => vec![first, columns / first],
                Some(_) => vec![columns, 1],
            };
            let (places, one_dy) = places;
            let [x, residual, sum, y, mut dy, dsum, dx] = places.map(|(offset, gap)| Place {
                offset: offset.next_multiple_of(unit),
                stride: columns + gap.next_multiple_of(unit),
            });
            if one_dy {
                dy.stride = 0;
            }
            let ([w, b, has_residual, has_dsum], mut goes) = there;
            for (goes, is_there) in goes[1..].iter_mut().zip([w, b]) {
                *goes = if is_there { *goes } else { Goes::Nowhere };
            }
            Problem {
                storage,
                leading,
                normalised,
                norm,
                options,
                w,
                b,
                x,
                residual: has_residual.then_some(residual),
                sum,
                y,
                dy,
                dsum: has_dsum.then_some(dsum),
                dx,
                goes,
                data,
            }
        },
    )
}
