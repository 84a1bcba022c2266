//! `cargo xtask api`: the public items of the library, listed in `docs/public-api.txt`, so that a
//! change of them is seen in review.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ci::{cargo, line};
use crate::error::Error;

/// Writes the list; with `check` it writes nothing, and fails unless the file holds it.
pub fn run(root: &Path, check: bool) -> Result<(), Error> {
    let file = root.join("docs/public-api.txt");
    let new = list(&document(root)?)?;
    if !check {
        fs::write(&file, new).map_err(Error::io(&file))?;
        println!("{}", file.display());
        return Ok(());
    }
    let old = fs::read_to_string(&file).map_err(Error::io(&file))?;
    let changes = changes(&old, &new);
    for change in &changes {
        println!("{change}");
    }
    match changes.len() {
        0 => Ok(()),
        changes => Err(Error::Api(changes)),
    }
}

/// Has rustdoc describe the library, in JSON. That is unstable, and so asks the stable compiler for
/// what only a nightly allows; build scripts see the same, hence a directory apart.
fn document(root: &Path) -> Result<PathBuf, Error> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from).join("api");
    let mut command = Command::new(cargo());
    command.args(["rustdoc", "--quiet", "--package", "ferronorm", "--lib", "--target-dir"]);
    command.arg(&target).args(["--", "-Zunstable-options", "--output-format", "json"]);
    command.current_dir(root).env("RUSTC_BOOTSTRAP", "1");
    let command_line = line(&command);
    let status = command
        .status()
        .map_err(|source| Error::Spawn { program: command_line.clone(), source })?;
    match status.success() {
        true => Ok(target.join("doc/ferronorm.json")),
        false => Err(Error::Command { command: command_line, status }),
    }
}

/// A line for each item; without what every type has, and what a derive makes.
fn list(json: &Path) -> Result<String, Error> {
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|error| Error::Messages(error.to_string()))?;
    Ok(api.items().map(|item| format!("{item}\n")).collect())
}

/// The lines that only one of the two has, marked as in a patch.
fn changes(old: &str, new: &str) -> Vec<String> {
    let [old, new] = [old, new].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone = old.difference(&new).map(|line| format!("- {line}"));
    let added = new.difference(&old).map(|line| format!("+ {line}"));
    gone.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_lines_of_one_side() {
        assert_eq!(changes("a\nb\nc\n", "a\nc\nd\n"), ["- b", "+ d"]);
        assert!(changes("a\nb\n", "a\nb\n").is_empty());
    }
}
