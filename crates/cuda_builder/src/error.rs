//! What can go wrong in a build.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::finish::FinishError;
use crate::ptx::PtxError;
use crate::toolchain::ToolchainError;

/// Why a build failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No compiler for the device was found.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),

    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A program could not be started.
    #[error("cannot run {program}: {source}")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// `cargo metadata` failed, or its answer lacks what was asked for.
    #[error("cargo metadata for {manifest}: {message}")]
    Metadata {
        /// The `Cargo.toml` it was asked about.
        manifest: PathBuf,
        /// What is wrong.
        message: String,
    },

    /// The compiler refused the kernels; it has said why on standard error.
    #[error("the kernels did not compile ({status}): {command}")]
    Compile {
        /// How cargo ended.
        status: ExitStatus,
        /// The command line.
        command: String,
    },

    /// Cargo succeeded, but the assembly is not where it was expected.
    #[error("cargo succeeded but left {found} files like {name}-*.s under {directory}; expected 1")]
    Assembly {
        /// The crate's library name.
        name: String,
        /// Where it was looked for.
        directory: PathBuf,
        /// How many there are.
        found: usize,
    },

    /// The assembly could not be turned into PTX to ship.
    #[error(transparent)]
    Finish(#[from] FinishError),

    /// The finished PTX cannot be read back.
    #[error(transparent)]
    Ptx(#[from] PtxError),

    /// A call was left that nothing defines; the driver would refuse to load the module.
    #[error(
        "the PTX calls functions that nothing defines: {}. A `core::panicking` name means that a \
         panic path survived: an index, a slice or a division that the compiler could not prove \
         in range. The text is kept in {kept}",
        names.join(", ")
    )]
    Undefined {
        /// Their mangled names.
        names: Vec<String>,
        /// The refused text.
        kept: PathBuf,
    },
}

impl BuildError {
    /// For `map_err` on file operations.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> BuildError + '_ {
        move |source| BuildError::Io { path: path.to_path_buf(), source }
    }
}
