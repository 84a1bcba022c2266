//! Turns rustc's assembly into the PTX that is shipped.
//!
//! Comments and blank lines go (a third of the file: LLVM brackets each `asm!` by two lines), the
//! panic handler goes if nothing calls it, a header of provenance comes on top, and launch bounds
//! are written in. Rust has no launch bounds, so a kernels crate marks its entries by comments:
//!
//! ```text
//! global_asm!("// @launch_bounds forward_f32_v1 512");        // at most 512 threads a block
//! global_asm!("// @launch_bounds backward_rows_f32_v1 512 2"); // and 2 such blocks on each SM
//! ```
//!
//! which become `.maxntid` and `.minnctapersm`. ptxas shares out registers by them; without them
//! it must assume blocks of 1024 threads.

use std::ops::Range;

use crate::provenance::Provenance;
use crate::ptx::{after_word, blank_comments, matching};

/// What a launch bounds mark starts with, after `//`.
const MARK: &str = "@launch_bounds";

/// The most threads that any architecture lets a block have.
const MAX_THREADS: u32 = 1024;

/// Why assembly could not be finished.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// A mark that makes no sense.
    #[error(
        "launch bounds: `{mark}` is not `@launch_bounds <entry> <max_threads> [<min_blocks>]` with \
         1 to {MAX_THREADS} threads and at least 1 block"
    )]
    Mark {
        /// The mark's text.
        mark: String,
    },
    /// Two marks for one entry.
    #[error("launch bounds: {entry} is marked twice")]
    MarkedTwice {
        /// The entry.
        entry: String,
    },
    /// A mark for an entry that the assembly does not have.
    #[error("launch bounds: there is no entry {entry}")]
    NoEntry {
        /// The entry.
        entry: String,
    },
    /// An entry whose head or body does not end.
    #[error("the assembly of {name} does not end")]
    Unended {
        /// The entry or function.
        name: String,
    },
}

/// The launch bounds of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bounds {
    entry: String,
    max_threads: u32,
    min_blocks: Option<u32>,
}

impl Bounds {
    fn directives(&self) -> String {
        let mut text = format!(".maxntid {}, 1, 1\n", self.max_threads);
        if let Some(blocks) = self.min_blocks {
            text.push_str(&format!(".minnctapersm {blocks}\n"));
        }
        text
    }
}

/// The PTX to ship, from the assembly that rustc wrote.
pub fn finish(assembly: &str, provenance: &Provenance) -> Result<String, FinishError> {
    let mut text = tidy(&blank_comments(assembly));
    remove_panic_handler(&mut text)?;
    for bounds in marks(assembly)? {
        apply(&mut text, &bounds)?;
    }
    Ok(format!("{}\n{}", provenance.header(), text))
}

/// Reads the marks out of the comments.
fn marks(assembly: &str) -> Result<Vec<Bounds>, FinishError> {
    let mut all: Vec<Bounds> = Vec::new();
    for line in assembly.lines() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            continue;
        };
        let Some(rest) = comment.trim().strip_prefix(MARK) else {
            continue;
        };
        let bounds = parse_mark(rest)
            .ok_or_else(|| FinishError::Mark { mark: comment.trim().to_string() })?;
        if all.iter().any(|other| other.entry == bounds.entry) {
            return Err(FinishError::MarkedTwice { entry: bounds.entry });
        }
        all.push(bounds);
    }
    Ok(all)
}

fn parse_mark(rest: &str) -> Option<Bounds> {
    if !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (entry, threads, blocks) = match words.as_slice() {
        [entry, threads] => (entry, threads, None),
        [entry, threads, blocks] => (entry, threads, Some(blocks.parse().ok()?)),
        _ => return None,
    };
    let max_threads = threads.parse().ok()?;
    let sensible = (1..=MAX_THREADS).contains(&max_threads) && blocks != Some(0);
    sensible.then(|| Bounds { entry: entry.to_string(), max_threads, min_blocks: blocks })
}

/// Writes the bounds between an entry's parameters and its body.
fn apply(text: &mut String, bounds: &Bounds) -> Result<(), FinishError> {
    let entry = &bounds.entry;
    let start = heads(text, ".entry")
        .find(|(name, _)| name == entry)
        .map(|(_, start)| start)
        .ok_or_else(|| FinishError::NoEntry { entry: entry.clone() })?;
    let head = text[start..].find('{').map(|brace| start + brace);
    let brace = head.ok_or_else(|| FinishError::Unended { name: entry.clone() })?;
    text.insert_str(brace, &bounds.directives());
    Ok(())
}

/// Takes out the panic handler, which must exist in Rust, unless something calls it.
fn remove_panic_handler(text: &mut String) -> Result<(), FinishError> {
    let handler = heads(text, ".func").find(|(name, _)| name.contains("rust_begin_unwind"));
    let Some((name, start)) = handler else {
        return Ok(());
    };
    let unended = || FinishError::Unended { name: name.clone() };
    let open = start + text[start..].find('{').ok_or_else(unended)?;
    let close = matching(text, open).ok_or_else(unended)?;
    // From the line's start, to be rid of `.visible` too, through the newline after the brace.
    let first = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let last = text[close..].find('\n').map_or(text.len(), |newline| close + newline + 1);
    let whole: Range<usize> = first..last;
    let called = text.match_indices(&name).any(|(at, _)| !whole.contains(&at));
    if !called {
        text.replace_range(whole, "");
    }
    Ok(())
}

/// Name, and place after it, of each `.entry` or `.func`.
fn heads<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = (String, usize)> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let (name, end) = after_word(text, word, from)?;
        from = end;
        Some((name, end))
    })
}

/// No blank lines, no spaces at the ends of lines, no space before a tab.
fn tidy(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_end().replace(" \t", " "));
    lines.filter(|line| !line.is_empty()).flat_map(|line| [line, "\n".into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSEMBLY: &str = "//
// Generated by LLVM NVPTX Back-End
//

.version 7.8
.target sm_90
.address_size 64


// @launch_bounds k1 512 2
// @launch_bounds k 64

	// .globl	_RN_7___rustc17rust_begin_unwind

.visible .func _RN_7___rustc17rust_begin_unwind(
	.param .b64 _RN_7___rustc17rust_begin_unwind_param_0
)
.noreturn
{
$L__BB0_1:
	bra.uni 	$L__BB0_1;
}
	// .globl	k1
.visible .entry k1(
	.param .align 8 .b8 k1_param_0[24]
)
{
	// begin inline asm
	mov.u32 %r3, dyn_smem;
	// end inline asm
	bar.sync 	0;                      // a barrier
	ret;

}
.visible .entry k()
{
	ret;
}
";

    fn provenance() -> Provenance {
        let text = |text: &str| text.to_string();
        Provenance { title: text("t"), compiler: text("c"), flags: text("f"), sources: text("s") }
    }

    #[test]
    fn finishes() {
        let expected = "// t
// compiler: c
// flags: f
// sources: s

.version 7.8
.target sm_90
.address_size 64
.visible .entry k1(
	.param .align 8 .b8 k1_param_0[24]
)
.maxntid 512, 1, 1
.minnctapersm 2
{
	mov.u32 %r3, dyn_smem;
	bar.sync 0;
	ret;
}
.visible .entry k()
.maxntid 64, 1, 1
{
	ret;
}
";
        assert_eq!(finish(ASSEMBLY, &provenance()).unwrap(), expected);
    }

    #[test]
    fn keeps_a_panic_handler_that_is_called() {
        let call = "\tcall.uni _RN_7___rustc17rust_begin_unwind, (p);\n\tret;\n\n}";
        let called = ASSEMBLY.replacen("\tret;\n\n}", call, 1);
        let text = finish(&called, &provenance()).unwrap();
        assert!(text.contains(".visible .func _RN_7___rustc17rust_begin_unwind("), "{text}");
    }

    #[test]
    fn a_mark_without_its_entry_is_an_error() {
        let wrong = ASSEMBLY.replace("@launch_bounds k1", "@launch_bounds k2");
        let entry = "k2".to_string();
        assert_eq!(finish(&wrong, &provenance()), Err(FinishError::NoEntry { entry }));
    }

    #[test]
    fn marks_that_make_no_sense_are_errors() {
        for mark in ["k", "k 0", "k 1025", "k many", "k 64 0", "k 64 1 1", ""] {
            let text = format!("// @launch_bounds {mark}\n.visible .entry k()\n{{\n}}\n");
            let result = finish(&text, &provenance());
            assert!(matches!(result, Err(FinishError::Mark { .. })), "{mark}: {result:?}");
        }
        let twice = ASSEMBLY.replace("@launch_bounds k1", "@launch_bounds k");
        let entry = "k".to_string();
        assert_eq!(finish(&twice, &provenance()), Err(FinishError::MarkedTwice { entry }));
    }

    #[test]
    fn a_cut_file_is_an_error() {
        let cut = ASSEMBLY.find("$L__BB0_1").unwrap();
        let result = finish(&ASSEMBLY[..cut], &provenance());
        assert!(matches!(result, Err(FinishError::Unended { .. })), "{result:?}");
    }
}
