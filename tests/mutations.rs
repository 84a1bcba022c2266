//! The tests' tolerances are tight enough: a result that lacks any one term, or has one too many,
//! is found wrong in every storage type, and the right one, rounded to it, is not.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use common::{Inputs, Outcome, Outputs, Suite, assert_close, each_pair, layer, round, run};
use ferronorm::plan::Storage;
use ferronorm::{Device, Dtype, Options};
use mutation::{Mutation, answer};
use reference::{Answer, Norm};

mod common;

#[path = "mutations/mutation.rs"]
mod mutation;

/// What `assert_close` says, if it fails.
fn refusal(check: impl FnOnce()) -> Option<String> {
    let text = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(_) => "a panic without a text".into(),
    };
    panic::catch_unwind(AssertUnwindSafe(check)).err().map(text)
}

fn check<E: Dtype, P: Dtype>(device: &Device, mutation: Mutation) -> Outcome {
    let inputs = mutation.inputs::<E, P>();
    let right = inputs.right();
    // Its statistics stay: they are no tensor of E.
    let run = run(&inputs.layer(device, Options::default()), &inputs)?;
    let stored = |answer: &Answer| Outputs::<E, P> {
        y: round(&answer.y),
        dx: round(&answer.dx),
        dw: Some(round(&answer.dw)),
        db: Some(round(&answer.db)),
        ..run.clone()
    };
    assert_close("right", &inputs, &stored(&right), &right);
    assert_close("not mutated", &inputs, &stored(&answer(&inputs, None)), &right);

    let mutant = stored(&answer(&inputs, Some(mutation)));
    for name in mutation.wrong() {
        let mut found = stored(&right);
        match *name {
            "y" => found.y.clone_from(&mutant.y),
            "dx" => found.dx.clone_from(&mutant.dx),
            "dw" => found.dw.clone_from(&mutant.dw),
            _ => found.db.clone_from(&mutant.db),
        }
        let Some(text) = refusal(|| assert_close("mutated", &inputs, &found, &right)) else {
            return Err(format!("{name}: not found wrong").into());
        };
        assert!(text.starts_with(&format!("mutated: {name}: off by")), "{name}: {text}");
    }
    Ok(())
}

/// The statistics of a run without eps, and of one without a mean.
fn check_statistics<E: Dtype, P: Dtype>(device: &Device) -> Outcome {
    let inputs = Mutation::EpsOutside.inputs::<E, P>();
    let right = inputs.right();
    let found = run(&layer(device, Options::default()), &inputs)?;
    assert_close("right", &inputs, &found, &right);
    let layer_norm = inputs.norm;
    for (name, norm) in
        [("rstd", Norm { eps: 0.0, ..layer_norm }), ("mean", Norm { rms: true, ..layer_norm })]
    {
        let other = Inputs { norm, ..inputs.clone() };
        let stats = run(&other.layer(device, Options::default()), &other)?.stats;
        let mutant = Outputs { stats, ..found.clone() };
        let text =
            refusal(|| assert_close("mutated", &inputs, &mutant, &right)).unwrap_or_default();
        assert!(text.starts_with(&format!("mutated: {name}: off by")), "{name}: {text}");
    }
    Ok(())
}

fn main() -> ExitCode {
    // Most panics here are wanted; the others are in the report.
    panic::set_hook(Box::new(|_| {}));
    let mut suite = Suite::default();
    each_pair!(E, P => {
        let storage = Storage { x: E::DTYPE, params: P::DTYPE };
        for mutation in Mutation::ALL {
            if mutation.is_rounding() && storage.x.size() == 2 {
                continue;
            }
            let name = format!("{storage} {mutation:?}");
            suite.cpu(&name, move |device| check::<E, P>(device, *mutation));
        }
        suite.cpu(&format!("{storage} statistics"), check_statistics::<E, P>);
    });
    suite.run()
}
