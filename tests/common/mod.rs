//! What the tests share: where a check runs, a run of a layer, and how close results must be.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test file is a crate of its own and uses its part"
)]

use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ferronorm::{Device, Error, LayerNorm, Options};
use libtest_mimic::{Arguments, Failed, Trial};

mod close;
pub mod raw;
pub mod refusal;
mod run;

pub use close::{assert_close, assert_near, assert_same};
pub use run::{Inputs, Outputs, flat, nans, poisoned, round, run, widen};

/// Of a check. Wrong results panic, which counts as failed too.
pub type Outcome = Result<(), Failed>;

/// Runs `$body` with `$E` as each storage type.
macro_rules! each_dtype {
    ($E:ident => $body:expr) => {{
        {
            type $E = f64;
            $body
        }
        {
            type $E = f32;
            $body
        }
        {
            type $E = half::f16;
            $body
        }
        {
            type $E = half::bf16;
            $body
        }
    }};
}
pub(crate) use each_dtype;

/// Runs `$body` with `$E` and `$P` as each pair of storage types, of x and of w and b.
macro_rules! each_pair {
    ($E:ident, $P:ident => $body:expr) => {{
        macro_rules! pair {
            ($e:ty, $p:ty) => {{
                type $E = $e;
                type $P = $p;
                $body
            }};
        }
        pair!(f64, f64);
        pair!(f32, f32);
        pair!(half::f16, half::f16);
        pair!(half::f16, f32);
        pair!(half::bf16, half::bf16);
        pair!(half::bf16, f32);
    }};
}
pub(crate) use each_pair;

/// No trial takes a tenth of it on two cores.
const LONGEST: Duration = Duration::from_secs(600);

/// The first GPU, opened once.
pub static GPU: LazyLock<ferronorm::Result<Device>> = LazyLock::new(|| Device::gpu(0));

/// The second GPU, if there is one.
static SECOND: LazyLock<ferronorm::Result<Device>> = LazyLock::new(|| Device::gpu(1));

/// A layer on `device`.
pub fn layer(device: &Device, options: Options) -> LayerNorm {
    LayerNorm::with_options(device, options)
}

/// The checks of a test file: a trial for each, on each of its devices.
///
/// Without a GPU its trials are reported as ignored. A GPU that is there and cannot be opened fails
/// them.
#[derive(Default)]
pub struct Suite {
    trials: Vec<Trial>,
}

impl Suite {
    /// `check`, on the CPU and on the GPU.
    pub fn both<C>(&mut self, name: &str, check: C)
    where
        C: Fn(&Device) -> Outcome + Clone + Send + 'static,
    {
        self.cpu(name, check.clone());
        self.gpu(name, check);
    }

    /// `check`, on the CPU with 4 OS threads: enough to contend for the group locks.
    pub fn cpu(&mut self, name: &str, check: impl Fn(&Device) -> Outcome + Send + 'static) {
        self.add(format!("cpu {name}"), false, move || check(&Device::cpu_with_threads(4)));
    }

    /// `check`, on the GPU.
    pub fn gpu(&mut self, name: &str, check: impl Fn(&Device) -> Outcome + Send + 'static) {
        let absent = matches!(*GPU, Err(Error::NoDriver { .. } | Error::NoDevice { .. }));
        let check = move || match &*GPU {
            Ok(device) => check(device),
            Err(error) => Err(error.into()),
        };
        self.add(format!("gpu {name}"), absent, check);
    }

    /// `check`, on the first two GPUs; ignored where there are not two.
    pub fn gpus(
        &mut self,
        name: &str,
        check: impl Fn(&Device, &Device) -> Outcome + Send + 'static,
    ) {
        let absent = matches!(*SECOND, Err(Error::NoDriver { .. } | Error::NoDevice { .. }));
        let check = move || match (&*GPU, &*SECOND) {
            (Ok(one), Ok(other)) => check(one, other),
            (Err(error), _) | (_, Err(error)) => Err(error.into()),
        };
        self.add(format!("gpus {name}"), absent, check);
    }

    /// A trial, and a watchdog that ends the program if it hangs.
    fn add(&mut self, name: String, ignored: bool, check: impl Fn() -> Outcome + Send + 'static) {
        let hung = format!("{name}: still not done after {LONGEST:?}, taken for a hang");
        let watched = move || {
            let (over, watch) = mpsc::channel::<()>();
            thread::spawn(move || {
                if watch.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
                    eprintln!("{hung}");
                    std::process::exit(101);
                }
            });
            let outcome = check();
            drop(over);
            outcome
        };
        self.trials.push(Trial::test(name, watched).with_ignored_flag(ignored));
    }

    /// Runs the trials, as the command line asks. With FERRONORM_SAMPLE=n in the environment, every
    /// n-th of a device's: enough under a tool that makes kernels a hundred times slower.
    pub fn run(mut self) -> ExitCode {
        let every = std::env::var("FERRONORM_SAMPLE").ok().and_then(|n| n.parse().ok());
        let mut seen = [0usize; 2];
        self.trials.retain(|trial| {
            let seen = &mut seen[usize::from(trial.name().starts_with("gpu"))];
            *seen += 1;
            (*seen - 1).is_multiple_of(every.unwrap_or(1).max(1))
        });
        let ignored = self.trials.iter().filter(|trial| trial.has_ignored_flag()).count();
        if let (1.., Err(error)) = (ignored, &*GPU) {
            eprintln!("\nignored: {ignored} checks on the GPU, since there is none ({error})");
        }
        libtest_mimic::run(&Arguments::from_args(), self.trials).exit_code()
    }
}
