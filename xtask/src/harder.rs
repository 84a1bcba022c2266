//! `cargo xtask loom`, `fuzz` and `stress`: what tests the locks and the kernels harder than
//! `cargo test` does.

use std::path::Path;
use std::process::Command;

use crate::ci;
use crate::error::Error;

/// The group lock in every order of its threads: runs the tests of crates/lock_model, and shows how
/// many executions each has gone through. By the profile of all tests: half a minute, and no less in
/// release.
pub fn loom(root: &Path) -> Result<(), Error> {
    run(
        root,
        &["test", "--package", "ferronorm-lock-model", "--all-targets", "--", "--show-output"],
        &[],
    )
}

/// So many random shapes, strides and options against the reference; others with another seed.
pub fn fuzz(root: &Path, cases: u32, seed: u64) -> Result<(), Error> {
    let settings = [("FERRONORM_CASES", cases.to_string()), ("FERRONORM_SEED", seed.to_string())];
    run(root, &["test", "--test", "properties"], &settings)
}

/// The group locks under load.
pub fn stress(root: &Path, runs: u32) -> Result<(), Error> {
    run(root, &["run", "--release", "--example", "stress", "--", "--runs", &runs.to_string()], &[])
}

fn run(root: &Path, args: &[&str], settings: &[(&str, String)]) -> Result<(), Error> {
    let mut command = Command::new(ci::cargo());
    command.args(args).current_dir(root).envs(settings.iter().map(|(name, value)| (name, value)));
    let line = ci::line(&command);
    let status =
        command.status().map_err(|source| Error::Spawn { program: line.clone(), source })?;
    if status.success() { Ok(()) } else { Err(Error::Command { command: line, status }) }
}
