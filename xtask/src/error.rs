//! What can go wrong in a task.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use cuda_builder::BuildError;
use cuda_builder::ptx::PtxError;
use cuda_builder::ptxas::PtxasError;

/// Why a task failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernels did not build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The assembler is missing or refuses.
    #[error(transparent)]
    Ptxas(#[from] PtxasError),
    /// A committed file is no PTX.
    #[error("{path}: {source}")]
    Ptx {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: PtxError,
    },
    /// A file could not be read, written or copied.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot run {program}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A command ended badly; it has said why.
    #[error("`{command}` failed ({status})")]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// There is no cargo-deny.
    #[error("cargo-deny is not installed; `cargo install --locked cargo-deny` brings it")]
    NoDeny,
    /// Messages of cargo or rustdoc were not understood.
    #[error("cargo's messages: {0}")]
    Messages(String),
    /// The check found something; it has been printed.
    #[error("{0} faults in the PTX, listed above")]
    Faults(usize),
    /// The public items are not those that are listed; the lines that differ have been printed.
    #[error("docs/public-api.txt: {0} lines differ, see above; `cargo xtask api` writes it anew")]
    Api(usize),
    /// There is nowhere to work.
    #[error("the project's root was not found")]
    NoRoot,
}

impl Error {
    /// For `map_err` on file operations.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |source| Error::Io { path: path.to_path_buf(), source }
    }
}
