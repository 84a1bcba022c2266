//! Values at the ends of the types: NaN, infinities, numbers whose squares or sums overflow, and
//! subnormal ones; and rows and weights for which a result is known to the bit.

use std::process::ExitCode;

use common::{Inputs, Outputs, Suite, each_pair};
use ferronorm::plan::{Storage, longest_held};
use ferronorm::{Dtype, Mode, Options, Tile};

#[path = "special/bad.rs"]
mod bad;
mod common;
#[path = "special/epsilon.rs"]
mod epsilon;
#[path = "special/exact.rs"]
mod exact;
#[path = "special/overflow.rs"]
mod overflow;
#[path = "special/subnormal.rs"]
mod subnormal;

/// The ways to give rows to blocks: each with a group for every block of a few rows, so that dw and
/// db have the same bits again.
fn ways() -> [Options; 4] {
    let default = Options::default();
    [
        default,
        Options { mode: Mode::Seed, ..default },
        Options { tile: Tile::Several, ..default },
        Options { blocks: Some(2), tile: Tile::One, ..default },
    ]
}

/// All rows but row `bad` have the bits of `good`.
fn assert_others_same<E: Dtype, P: Dtype>(
    inputs: &Inputs<E, P>,
    found: &Outputs<E, P>,
    good: &Outputs<E, P>,
    bad: usize,
    what: &str,
) {
    for row in (0..inputs.shape[0]).filter(|row| *row != bad) {
        let right = good.only_row(inputs, row);
        found.only_row(inputs, row).assert_same_rows(&right, &format!("{what}, row {row}"));
    }
}

fn assert_nan<E: Dtype>(what: &str, values: &[E]) {
    let numbers = values.iter().filter(|value| !value.to_f64().is_nan()).count();
    assert_eq!(numbers, 0, "{what}: not NaN, of {}", values.len());
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    each_pair!(E, P => {
        let held = longest_held(E::DTYPE);
        let storage = Storage { x: E::DTYPE, params: P::DTYPE };
        for columns in [104, 257, 1024, held + 1] {
            let name = |what: &str| format!("{what}, {storage}, rows of {columns}");
            suite.both(&name("bad x"), move |device| bad::check_x::<E, P>(device, columns));
            suite.both(&name("bad dy"), move |device| bad::check_dy::<E, P>(device, columns));
            suite.both(&name("bad w"), move |device| bad::check_w::<E, P>(device, columns));
            suite.both(&name("bad b"), move |device| bad::check_b::<E, P>(device, columns));
        }
        for columns in [1, 4, 7, 1000, 1024, held + 1] {
            let name = |what: &str| format!("{what}, {storage}, rows of {columns}");
            suite.both(&name("constant rows"), move |device| {
                exact::check_constant::<E, P>(device, columns)
            });
            suite.both(&name("eps of 1e-12"), move |device| {
                epsilon::check_tiny::<E, P>(device, columns)
            });
            suite.both(&name("eps of 0"), move |device| {
                epsilon::check_zero::<E, P>(device, columns)
            });
        }
        for columns in [100, 1024, held + 1] {
            let name = |what: &str| format!("{what}, {storage}, rows of {columns}");
            suite.both(&name("weights of 0"), move |device| {
                exact::check_zero_weights::<E, P>(device, columns)
            });
            suite.both(&name("subnormal results"), move |device| {
                subnormal::check_results::<E, P>(device, columns)
            });
        }
    });
    exact::add(&mut suite);
    epsilon::add(&mut suite);
    overflow::add(&mut suite);
    subnormal::add(&mut suite);
    suite.run()
}
