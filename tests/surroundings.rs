//! Bad surroundings: no driver, one that is none, a device that is too old, a full memory, calls that
//! fail. Each has its own error, nothing panics, nothing is left behind.
//!
//! They need no GPU: `crates/fake_cuda` stands in for the driver. It computes nothing, so that what
//! kernels give is not looked at. A process opens the driver once, so each case is a process of its
//! own: this program again, with the case's name in a variable.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ferronorm::driver::LIBRARY_VARIABLE;
use libtest_mimic::{Arguments, Failed, Trial};

#[path = "surroundings/each_call.rs"]
mod each_call;
#[path = "surroundings/fake.rs"]
mod fake;
#[path = "surroundings/start.rs"]
mod start;
#[path = "surroundings/work.rs"]
mod work;

/// The variable that tells a process which case it is.
const CASE: &str = "FERRONORM_SURROUNDINGS";

/// A case takes a second or two.
const LIMIT: Duration = Duration::from_secs(120);

/// One case: its name, the driver, and what must hold in a process that has this driver.
type Case = (&'static str, Driver, fn());

enum Driver {
    /// The fake one, with these settings (see its documentation).
    Fake(&'static str),
    /// A file that is none.
    File(&'static str),
}
use Driver::{Fake, File};

const NO_LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

const CASES: &[Case] = &[
    ("no file", File("/nonexistent/libcuda.so.1"), start::no_file),
    ("no library", File(NO_LIBRARY), start::no_library),
    #[cfg(target_os = "linux")]
    ("another library", File("libc.so.6"), start::another_library),
    ("stub", Fake("all=34"), start::stub),
    ("no device", Fake("cuInit=100"), start::no_device),
    ("zero devices", Fake("devices=0"), start::zero_devices),
    ("two devices", Fake("devices=2"), start::two_devices),
    ("driver and library differ", Fake("cuInit=803"), start::mismatch),
    ("unknown code", Fake("cuInit=999999"), start::unknown_code),
    ("old driver", Fake("version=9020"), start::old_driver),
    ("driver too old for the newest PTX", Fake("version=11080"), start::older_driver),
    ("old device", Fake("capability=61"), start::old_device),
    ("device too old for the newest PTX", Fake("capability=86"), start::older_device),
    ("corrupt PTX", Fake("cuModuleLoadDataEx=218"), start::corrupt_ptx),
    ("unsupported PTX", Fake("cuModuleLoadDataEx=222"), start::unsupported_ptx),
    ("out of memory", Fake("memory=1048576"), work::out_of_memory),
    ("lost by a launch", Fake("cuLaunchKernel=700"), work::lost_by_a_launch),
    ("lost before a wait", Fake(""), work::lost_before_a_wait),
    ("each call fails", Fake(""), each_call::fails),
    ("each call fails, no ring", Fake("capability=75"), each_call::fails_without_ring),
    ("the device is lost in each call", Fake(""), each_call::loses),
];

/// The file that cargo builds beside this program.
fn fake_library() -> Option<PathBuf> {
    let name = format!("{}fake_cuda{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let file = env::current_exe().ok()?.parent()?.join(name);
    file.exists().then_some(file)
}

/// Runs a case in a process, which must end well, and in time.
fn outcome(name: &str, library: &Path, settings: &str) -> Result<(), Failed> {
    let mut child = Command::new(env::current_exe()?)
        .env(CASE, name)
        .env(LIBRARY_VARIABLE, library)
        .env("FAKE_CUDA", settings)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > LIMIT {
            child.kill()?;
            return Err(format!("still running after {LIMIT:?}").into());
        }
        sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    // A panic in a thread of its own, or one that is caught, does not show in the status.
    if !output.status.success() || said.contains("panicked") {
        return Err(format!("{}\n{said}", output.status).into());
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Ok(wanted) = env::var(CASE) {
        let (.., check) = CASES.iter().find(|(name, ..)| *name == wanted).expect("a case's name");
        check();
        return ExitCode::SUCCESS;
    }
    let fake = fake_library();
    // Cargo has built it; a program that was copied to another machine may have to do without.
    assert!(fake.is_some() || env::var_os("CARGO").is_none(), "the fake driver is not there");
    let trials = CASES.iter().map(|(name, driver, _)| {
        let (library, settings) = match driver {
            Fake(settings) => (fake.clone(), *settings),
            File(name) => (Some(PathBuf::from(name)), ""),
        };
        let absent = library.is_none();
        let check = move || outcome(name, &library.unwrap_or_default(), settings);
        Trial::test(*name, check).with_ignored_flag(absent)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
