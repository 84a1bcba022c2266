//! What a layer can be asked for beside the plain formula, for every pair of storage types, with
//! rows that a block holds and rows that are split.

use std::process::ExitCode;

use common::{Outcome, Suite, each_pair};
use ferronorm::plan::{self, Storage};
use ferronorm::{Device, Dtype, Options, Tile};

mod common;

#[path = "options/accumulate.rs"]
mod accumulate;
#[path = "options/dims.rs"]
mod dims;
#[path = "options/fused.rs"]
mod fused;
#[path = "options/layouts.rs"]
mod layouts;
#[path = "options/parameters.rs"]
mod parameters;
#[path = "options/reductions.rs"]
mod reductions;
#[path = "options/tensors.rs"]
mod tensors;
#[path = "options/wanted.rs"]
mod wanted;

/// A check of one shape.
type Check = fn(&Device, [usize; 2], Options) -> Outcome;

/// Rows with a tail in their last pack (enough of them that the seed's groups would be shared by
/// three), rows of whole packs one at a time and several at a time, and split rows.
fn cases<E: Dtype>() -> [([usize; 2], Options); 4] {
    let one = Options { tile: Tile::One, ..Options::default() };
    let several = Options { tile: Tile::Several, ..one };
    let split = plan::longest_held(E::DTYPE) + 5;
    [([600, 33], one), ([70, 1152], one), ([70, 1024], several), ([3, split], one)]
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    each_pair!(E, P => {
        let storage = Storage { x: E::DTYPE, params: P::DTYPE };
        let checks: [(&str, Check); 11] = [
            ("w and b there or not", parameters::presence::<E, P>),
            ("a weight offset", parameters::offset::<E, P>),
            ("RMSNorm", parameters::rms::<E, P>),
            ("a residual", fused::residual::<E, P>),
            ("integers accumulated", accumulate::exact::<E, P>),
            ("accumulated, rounded once", accumulate::rounds_once::<E, P>),
            ("the gradients asked for", wanted::each_subset::<E, P>),
            ("the launches planned", wanted::planned::<E, P>),
            ("reductions", reductions::close::<E, P>),
            ("shared groups", reductions::shared::<E, P>),
            ("rows at strides", layouts::strided::<E, P>),
        ];
        for (shape @ [rows, columns], options) in cases::<E>() {
            for (what, check) in checks {
                let name = format!("{storage} {rows}x{columns}: {what}");
                suite.both(&name, move |device| check(device, shape, options));
            }
            let name = format!("{storage} {rows}x{columns}: the same bits again");
            suite.cpu(&name, move |_| {
                let devices = [1, 4, 7].map(Device::cpu_with_threads);
                reductions::deterministic::<E, P>(&devices, shape, options)
            });
            suite.gpu(&name, move |device| {
                let devices = std::slice::from_ref(device);
                reductions::deterministic::<E, P>(devices, shape, options)
            });
        }
        suite.both(&format!("{storage}: dimensions"), dims::check::<E, P>);
        suite.both(&format!("{storage}: dy of few elements"), layouts::expanded::<E, P>);
        suite.both(&format!("{storage}: layouts refused"), layouts::refused::<E, P>);
        suite.both(&format!("{storage}: strides without a meaning"), layouts::padded::<E, P>);
    });
    suite.run()
}
