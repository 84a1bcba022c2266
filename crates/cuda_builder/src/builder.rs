//! The builder itself: finds, compiles, finishes, reads back, writes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::arch::Arch;
use crate::cargo::{self, PROFILE};
use crate::error::BuildError;
use crate::finish::finish;
use crate::provenance::Provenance;
use crate::ptx::Ptx;
use crate::sources;
use crate::toolchain::Toolchain;

/// Builds a kernels crate; see the [crate's example](crate).
#[derive(Clone, Debug)]
#[must_use = "nothing is compiled before `build`"]
pub struct CudaBuilder {
    crate_dir: PathBuf,
    arch: Arch,
    copy_to: Option<PathBuf>,
    target_dir: Option<PathBuf>,
}

/// A finished build.
#[derive(Clone, Debug)]
pub struct Built {
    /// The PTX, as written to [`CudaBuilder::copy_to`]'s path.
    pub text: String,
    /// The same, read back.
    pub ptx: Ptx,
    /// What made it; also at the top of `text`.
    pub provenance: Provenance,
    /// What a person should know, such as an unexpected version of the compiler.
    pub notes: Vec<String>,
}

impl CudaBuilder {
    /// Of the crate in this directory, for [`Arch::Sm75`] unless told otherwise.
    pub fn new(crate_dir: impl AsRef<Path>) -> CudaBuilder {
        CudaBuilder {
            crate_dir: crate_dir.as_ref().to_path_buf(),
            arch: Arch::Sm75,
            copy_to: None,
            target_dir: None,
        }
    }

    /// The architecture to compile for.
    pub fn arch(mut self, arch: Arch) -> CudaBuilder {
        self.arch = arch;
        self
    }

    /// Also write the PTX to this file. Its directory is made if need be.
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> CudaBuilder {
        self.copy_to = Some(path.as_ref().to_path_buf());
        self
    }

    /// Where cargo keeps the compiled `core` and the rest; `device/<arch>` in the crate's target
    /// directory unless told otherwise.
    pub fn target_dir(mut self, path: impl AsRef<Path>) -> CudaBuilder {
        self.target_dir = Some(path.as_ref().to_path_buf());
        self
    }

    /// Compiles. What the compiler has to say goes to standard error.
    ///
    /// PTX that calls a function which nothing defines is refused, as no driver would load it. Other
    /// faults that a project may care about are left to it: [`Ptx`] has the numbers.
    pub fn build(self) -> Result<Built, BuildError> {
        let toolchain = Toolchain::find()?;
        let package = cargo::package(&toolchain, &self.crate_dir)?;
        let target_dir = self
            .target_dir
            .unwrap_or_else(|| package.target_directory.join("device").join(self.arch.name()));

        let flags = format!("{} {}", self.arch.rustflags().join(" "), PROFILE.join(" "));
        let files = sources::collect(&toolchain, &package)?;
        let provenance = Provenance {
            title: format!("{} for {}", package.name.replace('-', " "), self.arch),
            compiler: toolchain.version.describe(),
            sources: format!("sha256:{}", sources::hash(&files, &flags)),
            flags,
        };

        let assembly = cargo::assembly(&toolchain, &package, self.arch, &target_dir)?;
        let text = finish(&assembly, &provenance)?;
        let ptx = Ptx::parse(&text)?;
        if !ptx.extern_functions.is_empty() {
            let kept = target_dir.join("refused.ptx");
            fs::write(&kept, &text).map_err(BuildError::io(&kept))?;
            return Err(BuildError::Undefined { names: ptx.extern_functions, kept });
        }
        if let Some(path) = &self.copy_to {
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                fs::create_dir_all(parent).map_err(BuildError::io(parent))?;
            }
            fs::write(path, &text).map_err(BuildError::io(path))?;
        }
        Ok(Built { text, ptx, provenance, notes: toolchain.note().into_iter().collect() })
    }
}
