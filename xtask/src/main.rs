//! The project's own commands: `cargo xtask ptx`, `loom`, `fuzz`, `stress`, `bundle`, `deny`, `api` and `ci`.

mod api;
mod assemble;
mod bundle;
mod check;
mod ci;
mod deny;
mod error;
mod expect;
mod harder;
mod ptx;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "ferronorm's own commands", version)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Compile the kernels to the PTX files in host/ptx.
    Ptx {
        /// Write nothing: fail unless the committed files match the sources, keep the kernels'
        /// rules and assemble without spills.
        #[arg(long)]
        check: bool,
        /// With --check: fail where there is no ptxas, rather than say so.
        #[arg(long, requires = "check")]
        require_ptxas: bool,
    },
    /// Run the group lock in every order that its threads can take, and broken locks beside it.
    Loom,
    /// Hold random shapes, strides and options against the reference.
    Fuzz {
        /// How many.
        #[arg(long, default_value_t = 10_000)]
        cases: u32,
        /// Others with another.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Run backward many times on data whose gradients are whole numbers, and count the wrong ones.
    Stress {
        /// Runs of each case.
        #[arg(long, default_value_t = 1000)]
        runs: u32,
    },
    /// Build every example, test and bench, and copy the programs to a directory: for a machine
    /// that has a GPU but no Rust.
    Bundle {
        /// The directory; made if need be.
        dir: PathBuf,
    },
    /// Have cargo-deny check the dependencies' licences and sources.
    Deny {
        /// Look for security advisories too, which are fetched from GitHub.
        #[arg(long)]
        advisories: bool,
    },
    /// List the library's public items in docs/public-api.txt.
    Api {
        /// Write nothing: fail unless the file lists them.
        #[arg(long)]
        check: bool,
    },
    /// Run every gate, in order, up to the first that fails.
    Ci {
        /// Fail where there is no ptxas.
        #[arg(long)]
        require_ptxas: bool,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = root().and_then(|root| match cli.command {
        Task::Ptx { check: false, .. } => ptx::build(&root),
        Task::Ptx { check: true, require_ptxas } => check::check(&root, require_ptxas),
        Task::Loom => harder::loom(&root),
        Task::Fuzz { cases, seed } => harder::fuzz(&root, cases, seed),
        Task::Stress { runs } => harder::stress(&root, runs),
        Task::Bundle { dir } => bundle::bundle(&root, &dir),
        Task::Deny { advisories } => deny::check(&root, advisories),
        Task::Api { check } => api::run(&root, check),
        Task::Ci { require_ptxas } => ci::run(&root, require_ptxas),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The project's root: where this crate was compiled, unless the checkout has moved since.
fn root() -> Result<PathBuf, Error> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let manifest = manifest.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest.parent().map(Path::to_path_buf).ok_or(Error::NoRoot)
}
