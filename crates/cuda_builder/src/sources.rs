//! A hash over the sources of the kernels: says whether a PTX file is of these sources, without a
//! compiler.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::cargo::{self, Package};
use crate::error::BuildError;
use crate::toolchain::Toolchain;

/// The `.rs` files of the crate and of those it depends on by path, keyed by
/// `<package>/<path in it>`: the key is the same wherever the checkout lies.
pub(crate) fn collect(
    toolchain: &Toolchain,
    root: &Package,
) -> Result<BTreeMap<String, Vec<u8>>, BuildError> {
    let mut files = BTreeMap::new();
    let mut seen = vec![root.directory().to_path_buf()];
    read_crate(root, &mut files)?;
    let mut open: Vec<PathBuf> = root.path_dependencies.clone();
    while let Some(directory) = open.pop() {
        if seen.contains(&directory) {
            continue;
        }
        let package = cargo::package(toolchain, &directory)?;
        read_crate(&package, &mut files)?;
        open.extend(package.path_dependencies);
        seen.push(directory);
    }
    Ok(files)
}

/// SHA-256 over the files and the flags. Lengths go in, so that no two different lists of files
/// feed the same bytes.
pub(crate) fn hash(files: &BTreeMap<String, Vec<u8>>, flags: &str) -> String {
    let mut sha = Sha256::new();
    let mut feed = |bytes: &[u8]| {
        sha.update((bytes.len() as u64).to_le_bytes());
        sha.update(bytes);
    };
    for (name, contents) in files {
        feed(name.as_bytes());
        feed(contents);
    }
    feed(flags.as_bytes());
    sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_crate(package: &Package, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), BuildError> {
    read_directory(package.directory(), &package.name, files)
}

fn read_directory(
    directory: &Path,
    key: &str,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> Result<(), BuildError> {
    for entry in fs::read_dir(directory).map_err(BuildError::io(directory))? {
        let path = entry.map_err(BuildError::io(directory))?.path();
        let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            continue;
        };
        let key = format!("{key}/{name}");
        if path.is_dir() {
            // Build outputs, and what is never part of the library.
            let apart = ["target", "tests", "benches", "examples"];
            if !apart.contains(&&*name) && !name.starts_with('.') {
                read_directory(&path, &key, files)?;
            }
        } else if name.ends_with(".rs") {
            files.insert(key, fs::read(&path).map_err(BuildError::io(&path))?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        list.iter().map(|(name, text)| (name.to_string(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn hash_tells_names_contents_and_flags_apart() {
        let base = hash(&files(&[("a.rs", "1"), ("b.rs", "2")]), "-C");
        assert_eq!(base.len(), 64);
        assert_eq!(base, hash(&files(&[("b.rs", "2"), ("a.rs", "1")]), "-C"));
        assert_ne!(base, hash(&files(&[("a.rs", "1"), ("b.rs", "2")]), "-D"));
        assert_ne!(base, hash(&files(&[("a.rs", "1b.rs2")]), "-C"));
        assert_ne!(base, hash(&files(&[("a.rs", "1"), ("c.rs", "2")]), "-C"));
    }
}
