//! `cargo xtask ptx --check`: are the committed files of these sources, and are they right?

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cuda_builder::ptx::Ptx;
use cuda_builder::ptxas::{Ptxas, PtxasError};
use cuda_builder::{Built, Provenance};

use crate::assemble::{self, Text};
use crate::error::Error;
use crate::expect::{self, Counts};
use crate::ptx::{self, FILES, File};

/// Runs the whole check.
pub fn check(root: &Path, require_ptxas: bool) -> Result<(), Error> {
    let mut faults = Vec::new();
    let mut texts = Vec::new();
    for file in &FILES {
        let path = file.path(root);
        let text = fs::read_to_string(&path).map_err(Error::io(&path))?;
        let committed =
            Ptx::parse(&text).map_err(|source| Error::Ptx { path: path.clone(), source })?;
        let built = ptx::builder(root, file).build()?;
        for note in &built.notes {
            eprintln!("note: {note}");
        }
        let compared = compare(file, &text, &committed, &built);
        if let Compared::Same | Compared::OtherCompiler = compared {
            faults.extend(rules(file, "committed", &committed));
            texts.push(Text { file, which: "committed", text, ptx: committed });
        }
        match compared {
            Compared::Same => continue,
            Compared::OtherCompiler => {}
            Compared::Stale(fault) => faults.push(fault),
        }
        faults.extend(rules(file, "built", &built.ptx));
        texts.push(Text { file, which: "built", text: built.text, ptx: built.ptx });
    }
    match Ptxas::find() {
        Ok(ptxas) => faults.extend(assemble::assemble(&ptxas, &texts)?),
        Err(PtxasError::NotFound) if !require_ptxas => {
            println!("NOT ASSEMBLED: {}", PtxasError::NotFound);
        }
        Err(error) => return Err(error.into()),
    }
    report(&faults)
}

/// Prints the faults, and fails if there is one.
pub fn report(faults: &[String]) -> Result<(), Error> {
    for fault in faults {
        eprintln!("FAULT {fault}");
    }
    match faults.len() {
        0 => Ok(()),
        number => Err(Error::Faults(number)),
    }
}

/// What the text alone says: the rules that every entry keeps, and those of its kind.
pub fn rules(file: &File, which: &str, ptx: &Ptx) -> Vec<String> {
    let mut faults = Vec::new();
    let name = file.name();
    let mut fault = |what: String| faults.push(format!("{name} ({which}): {what}"));
    if ptx.target != file.arch.name() {
        fault(format!(".target is {}", ptx.target));
    }
    for function in &ptx.extern_functions {
        fault(format!("calls {function}, which nothing defines"));
    }
    if ptx.entries.is_empty() {
        fault("has no entries".into());
    }
    for function in ptx.all() {
        if function.local_bytes > 0 {
            fault(format!("{function}: a stack frame of {} bytes", function.local_bytes));
        }
        if function.contractible() > 0 {
            let number = function.contractible();
            fault(format!("{function}: {number} float operations that ptxas may fuse (no .rn)"));
        }
        if function.approximate() > 0 {
            let number = function.approximate();
            fault(format!("{function}: {number} float operations that are .approx, .full or .ftz"));
        }
    }
    // What many entries lack alike is one fault.
    let mut unmet: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in &ptx.entries {
        for what in expect::unmet(entry) {
            unmet.entry(what).or_default().push(&entry.name);
        }
    }
    for (what, entries) in unmet {
        fault(format!("{what}: {}", entries.join(" ")));
    }
    faults
}

/// How a committed file compares with what the sources build.
enum Compared {
    /// The same text.
    Same,
    /// Another text by another compiler, with the same properties.
    OtherCompiler,
    /// To be built again, for this reason. Only what was built now is worth a look.
    Stale(String),
}

/// Compares as text where one compiler made both, by the entries' properties otherwise.
fn compare(file: &File, text: &str, committed: &Ptx, built: &Built) -> Compared {
    let name = file.name();
    let stale = |what: &str| {
        Compared::Stale(format!("{name}: {what}; run `cargo xtask ptx` and commit the result"))
    };
    let Some(provenance) = Provenance::read(text) else {
        return stale("has no header that says what made it");
    };
    if provenance.sources != built.provenance.sources {
        return stale("is of other sources or flags");
    }
    if provenance.compiler == built.provenance.compiler {
        if text == built.text {
            println!("{name}: is what the sources build");
            return Compared::Same;
        }
        let lines = text.lines().zip(built.text.lines());
        let line = lines.take_while(|(old, new)| old == new).count() + 1;
        return stale(&format!("is not what the sources build, from line {line} on"));
    }
    println!(
        "{name}: made by {}, but here is {}: comparing properties, not text",
        provenance.compiler, built.provenance.compiler
    );
    match differences(committed, &built.ptx).as_slice() {
        [] => Compared::OtherCompiler,
        list => stale(&list.join(", ")),
    }
}

/// How the entries of two files differ in what counts.
fn differences(committed: &Ptx, built: &Ptx) -> Vec<String> {
    let counts = |ptx: &Ptx| -> BTreeMap<String, Counts> {
        ptx.entries.iter().map(|entry| (entry.name.clone(), Counts::of(entry))).collect()
    };
    let (old, new) = (counts(committed), counts(built));
    let mut faults = Vec::new();
    for (name, old) in &old {
        match new.get(name) {
            None => faults.push(format!("{name} is no longer built")),
            Some(new) if new != old => faults.push(format!("{name} has {old}; built: {new}")),
            Some(_) => {}
        }
    }
    let added = new.keys().filter(|name| !old.contains_key(*name));
    faults.extend(added.map(|name| format!("it lacks {name}")));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ptx(target: &str, entry: &str, body: &str) -> Ptx {
        let text = format!(
            ".version 8.0\n.target {target}\n.address_size 64\n.visible .entry {entry}()\n{{\n{body}\n}}\n"
        );
        Ptx::parse(&text).unwrap()
    }

    /// A body that meets the table's row for `forward_f32_v1`.
    fn right_body() -> String {
        let load = "ld.global.v4.b32 {a, b, c, d}, [p];";
        format!(
            "{load}\n{}{}",
            "bar.sync 0;\n".repeat(3),
            "shfl.sync.bfly.b32 a, a, 1, 31, -1;\n".repeat(22)
        )
    }

    #[test]
    fn right_text_has_no_faults() {
        let right = ptx("sm_75", "forward_f32_v1", &right_body());
        assert_eq!(rules(&FILES[0], "built", &right), Vec::<String>::new());
    }

    #[test]
    fn each_rule_finds_its_fault() {
        let faults = |target, body: &str| {
            rules(&FILES[0], "built", &ptx(target, "forward_f32_v1", &(right_body() + body)))
        };
        let one = |faults: Vec<String>, what: &str| {
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(faults[0].contains(what), "{faults:?}");
        };
        one(faults("sm_90", ""), ".target is sm_90");
        one(faults("sm_75", ".local .align 4 .b8 d[64];"), "stack frame of 64 bytes");
        one(faults("sm_75", "mul.f32 a, b, c;"), "may fuse");
        one(faults("sm_75", "sqrt.approx.f32 a, b;"), ".approx");
        one(faults("sm_75", "div.rn.ftz.f32 a, b, c;"), ".ftz");
        one(faults("sm_75", "atom.acquire.gpu.global.cas.b32 a, [p], b, c;"), "compare-and-swaps");
    }

    #[test]
    fn differences_are_of_entries_and_counts() {
        let old = ptx("sm_75", "forward_f32_v1", "bar.sync 0;");
        let more = ptx("sm_75", "forward_f32_v1", "bar.sync 0; bar.sync 0;");
        let renamed = ptx("sm_75", "forward_f32_v2", "bar.sync 0;");
        let other_text = ptx("sm_75", "forward_f32_v1", "bar.sync 0; ret;");
        assert_eq!(differences(&old, &other_text), Vec::<String>::new());
        assert_eq!(differences(&old, &more).len(), 1);
        assert_eq!(differences(&old, &renamed).len(), 2);
    }
}
