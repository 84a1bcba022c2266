//! `cargo xtask loom`: the group lock in every order of its threads.

use std::path::Path;
use std::process::Command;

use crate::ci;
use crate::error::Error;

/// Runs the tests of crates/lock_model, and shows how many executions each has gone through.
///
/// By the profile of all tests: half a minute, and no less in release.
pub fn run(root: &Path) -> Result<(), Error> {
    let mut command = Command::new(ci::cargo());
    command
        .args(["test", "--package", "ferronorm-lock-model", "--all-targets"])
        .args(["--", "--show-output"])
        .current_dir(root);
    let line = ci::line(&command);
    let status =
        command.status().map_err(|source| Error::Spawn { program: line.clone(), source })?;
    if status.success() { Ok(()) } else { Err(Error::Command { command: line, status }) }
}
