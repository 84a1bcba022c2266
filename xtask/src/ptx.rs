//! `cargo xtask ptx`: the PTX files that the library embeds.

use std::path::{Path, PathBuf};

use cuda_builder::{Arch, CudaBuilder};

use crate::check;
use crate::error::Error;

/// One PTX file.
pub struct File {
    /// What it is compiled for.
    pub arch: Arch,
    /// What it must assemble for: every architecture that the loader gives it to, and the later
    /// ones that could take it.
    pub serves: &'static [u32],
}

/// All of them.
pub const FILES: [File; 2] = [
    File { arch: Arch::Sm75, serves: &[75, 80, 86, 89, 90, 100, 120] },
    File { arch: Arch::Sm90, serves: &[90, 100, 120] },
];

impl File {
    /// Where it is committed.
    pub fn path(&self, root: &Path) -> PathBuf {
        root.join("host/ptx").join(self.name())
    }

    /// Its name.
    pub fn name(&self) -> String {
        format!("ferronorm.{}.ptx", self.arch)
    }
}

/// The builder of a file.
pub fn builder(root: &Path, file: &File) -> CudaBuilder {
    CudaBuilder::new(root.join("kernels")).arch(file.arch)
}

/// Builds and writes all.
pub fn build(root: &Path) -> Result<(), Error> {
    let mut faults = Vec::new();
    for file in &FILES {
        let path = file.path(root);
        let built = builder(root, file).copy_to(&path).build()?;
        for note in &built.notes {
            eprintln!("note: {note}");
        }
        let (entries, kib) = (built.ptx.entries.len(), built.text.len().div_ceil(1024));
        let compiler = &built.provenance.compiler;
        println!("{}: {entries} entries, {kib} KiB, by {compiler}", path.display());
        faults.extend(check::rules(file, "built", &built.ptx));
    }
    // The files stay: what is wrong with them is best looked at in them.
    check::report(&faults)
}
