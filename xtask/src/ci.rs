//! `cargo xtask ci`: the gates, as CI runs them.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::error::Error;

/// The commands, each as one would type it after `cargo`. Warnings of rustdoc count as errors.
const GATES: [&str; 12] = [
    "fmt --all --check",
    "clippy --workspace --all-targets -- -D warnings",
    "doc --no-deps --workspace",
    "xtask api --check",
    "test --workspace",
    "run --release --example verify",
    "xtask ptx --check",
    "fmt --manifest-path integrations/candle/Cargo.toml --check",
    "clippy --manifest-path integrations/candle/Cargo.toml --locked --all-targets -- -D warnings",
    "doc --manifest-path integrations/candle/Cargo.toml --locked --no-deps",
    "test --manifest-path integrations/candle/Cargo.toml --locked",
    "run --manifest-path integrations/candle/Cargo.toml --locked --example train -- --steps 100 \
     --below 0.5",
];

/// Runs them up to the first that fails.
pub fn run(root: &Path, require_ptxas: bool) -> Result<(), Error> {
    for gate in GATES {
        let mut command = Command::new(cargo());
        command.args(gate.split(' ')).current_dir(root).env("RUSTDOCFLAGS", "-D warnings");
        // One directory for both workspaces: they share what they build alike.
        if std::env::var_os("CARGO_TARGET_DIR").is_none() {
            command.env("CARGO_TARGET_DIR", root.join("target"));
        }
        if require_ptxas && gate.contains("ptx --check") {
            command.arg("--require-ptxas");
        }
        let command_line = line(&command);
        println!("$ {command_line}");
        let start = Instant::now();
        let status = command
            .status()
            .map_err(|source| Error::Spawn { program: command_line.clone(), source })?;
        println!("{} s for {command_line}", start.elapsed().as_secs());
        if !status.success() {
            return Err(Error::Command { command: command_line, status });
        }
    }
    println!("all {} gates passed", GATES.len());
    Ok(())
}

/// The cargo that runs this task.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A cargo command as one would type it.
pub fn line(command: &Command) -> String {
    let args = command.get_args().map(|arg| arg.to_string_lossy());
    std::iter::once("cargo".into()).chain(args).collect::<Vec<_>>().join(" ")
}
