//! Any shape, layout and option against LayerNorm in f64: problems drawn at random, each made as
//! small as it still fails.
//!
//! The draw is the same in every run. `FERRONORM_CASES` says how many problems, `FERRONORM_SEED`
//! which ones.

use std::process::ExitCode;
use std::{env, panic};

use common::{Outcome, Suite, each_pair};
use ferronorm::plan::Storage;
use ferronorm::{Device, Dtype};
use problem::Problem;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

mod common;

#[path = "properties/check.rs"]
mod check;
#[path = "properties/near.rs"]
mod near;
#[path = "properties/placed.rs"]
mod placed;
#[path = "properties/problem.rs"]
mod problem;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    let parse =
        |value: String| value.parse().unwrap_or_else(|_| panic!("{name}={value}: no number"));
    env::var(name).map_or(default, parse)
}

fn check(device: &Device, problem: &Problem) -> ferronorm::Result<()> {
    each_pair!(E, P => if problem.storage == (Storage { x: E::DTYPE, params: P::DTYPE }) {
        return check::check::<E, P>(device, problem);
    });
    unreachable!("{}: not one of the pairs", problem.storage)
}

fn check_all(device: &Device, cases: u64, seed: u64) -> Outcome {
    let config = Config {
        cases: cases as u32,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 4096,
        ..Config::default()
    };
    let failed = |error: ferronorm::Error| TestCaseError::fail(error.to_string());
    let run = |problem: Problem| check(device, &problem).map_err(failed);
    match TestRunner::new(config).run(&problem::problems(), run) {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, least)) => {
            let replay = format!("FERRONORM_SEED={seed} FERRONORM_CASES={cases}");
            Err(format!("{reason}\nin {least:#?}\nreplay: {replay} cargo test --test properties")
                .into())
        }
        Err(error) => Err(error.into()),
    }
}

fn main() -> ExitCode {
    let (cases, seed) = (setting("FERRONORM_CASES", 4096), setting("FERRONORM_SEED", 1));
    // Each step of the shrinking fails; what the last one says is in the report.
    panic::set_hook(Box::new(|_| {}));
    let mut suite = Suite::default();
    let name = format!("{cases} problems of seed {seed}");
    suite.both(&name, move |device| check_all(device, cases, seed));
    suite.run()
}
