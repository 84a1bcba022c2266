//! `cargo xtask deny`: whether the dependencies are as `deny.toml` wants them.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::ci::{cargo, line};
use crate::error::Error;

/// Each has a lock file of its own.
const WORKSPACES: [&str; 2] = ["Cargo.toml", "integrations/candle/Cargo.toml"];

/// Has cargo-deny check licences, bans and sources: all that needs no network. The advisories are a
/// repository on GitHub, which not every machine reaches, so they are checked if asked for.
pub fn check(root: &Path, advisories: bool) -> Result<(), Error> {
    let mut version = Command::new(cargo());
    version.args(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !version.status().is_ok_and(|status| status.success()) {
        return Err(Error::NoDeny);
    }
    WORKSPACES.iter().try_for_each(|manifest| workspace(root, manifest, advisories))
}

fn workspace(root: &Path, manifest: &str, advisories: bool) -> Result<(), Error> {
    let mut command = Command::new(cargo());
    command.args(["deny", "--manifest-path", manifest, "--config", "deny.toml", "--workspace"]);
    command.args(["check", "licenses", "bans", "sources"]).current_dir(root);
    if advisories {
        command.arg("advisories");
    }
    let command_line = line(&command);
    let status = command
        .status()
        .map_err(|source| Error::Spawn { program: command_line.clone(), source })?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::Command { command: command_line, status }),
    }
}
