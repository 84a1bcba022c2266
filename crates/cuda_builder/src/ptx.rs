//! Reads PTX text, as far as checks on compiled kernels need it.
//!
//! This is no assembler: ptxas says whether the text is right. It finds the functions and the
//! mnemonics in them, in what LLVM writes and what `asm!` puts in between: predicates, labels,
//! `{ }` scopes, several instructions on a line, calls over many lines.

use std::fmt;

/// A PTX file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    /// The PTX ISA of `.version`.
    pub version: (u32, u32),
    /// The architecture of `.target`.
    pub target: String,
    /// The kernels, in the order of the text.
    pub entries: Vec<Function>,
    /// Functions that are no kernels.
    pub functions: Vec<Function>,
    /// Names of functions that are declared `.extern`: nothing defines them, so nothing loads.
    pub extern_functions: Vec<String>,
}

/// A kernel, or a function that kernels call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The most threads a block may have, from `.maxntid`.
    pub max_threads: Option<u32>,
    /// The blocks that must fit on an SM, from `.minnctapersm`.
    pub min_blocks: Option<u32>,
    /// Bytes of `.local` variables: LLVM's stack frame.
    pub local_bytes: usize,
    /// The mnemonic of each instruction, in order, such as `ld.global.nc.v4.b32`.
    pub mnemonics: Vec<String>,
}

/// A state space that loads read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Global memory, also through a generic address (that is how raw pointers read it).
    Global,
    /// Shared memory of the block.
    Shared,
}

/// Why text is not PTX.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PtxError {
    /// A directive is missing or makes no sense.
    #[error("not PTX: no sensible `{0}`")]
    Directive(&'static str),
    /// A brace or statement is not closed.
    #[error("not PTX: `{0}` does not end")]
    Unended(String),
}

impl Ptx {
    /// Reads a file.
    pub fn parse(text: &str) -> Result<Ptx, PtxError> {
        let text = blank_comments(text);
        let directive = |name: &'static str| {
            let value = text.lines().find_map(|line| line.trim().strip_prefix(name));
            let value = value.filter(|value| value.starts_with(char::is_whitespace));
            value.map(str::trim).ok_or(PtxError::Directive(name))
        };
        let version = directive(".version")?
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .ok_or(PtxError::Directive(".version"))?;
        let target = directive(".target")?.split(',').next().unwrap_or_default().trim();
        let mut ptx = Ptx {
            version,
            target: target.to_string(),
            entries: Vec::new(),
            functions: Vec::new(),
            extern_functions: Vec::new(),
        };
        ptx.entries = functions(&text, ".entry", &mut ptx.extern_functions)?;
        ptx.functions = functions(&text, ".func", &mut ptx.extern_functions)?;
        Ok(ptx)
    }

    /// Kernels and functions.
    pub fn all(&self) -> impl Iterator<Item = &Function> {
        self.entries.iter().chain(&self.functions)
    }
}

impl Function {
    /// How many instructions have this mnemonic, or continue it with a dot: `bar.sync` counts
    /// `bar.sync` and `bar.sync.aligned`, but `add` does not count `addc.u32`.
    pub fn count(&self, prefix: &str) -> usize {
        self.count_where(|mnemonic| {
            mnemonic
                .strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// How many instructions' mnemonics are as asked.
    pub fn count_where(&self, is: impl Fn(&str) -> bool) -> usize {
        self.mnemonics.iter().filter(|mnemonic| is(mnemonic)).count()
    }

    /// Float additions and multiplications that state no rounding: ptxas may fuse those, and the
    /// result then has other bits than the same code has on a CPU.
    pub fn contractible(&self) -> usize {
        self.count_where(is_contractible)
    }

    /// Float instructions whose result is not the correctly rounded one: `.approx`, `.full`, or
    /// with `.ftz`, which takes denormals for zero.
    pub fn approximate(&self) -> usize {
        self.count_where(|mnemonic| {
            is_float(mnemonic)
                && mnemonic.split('.').any(|part| matches!(part, "approx" | "full" | "ftz"))
        })
    }

    /// Loads of at least 16 bytes an instruction.
    pub fn wide_loads(&self, space: Space) -> usize {
        self.count_where(|mnemonic| load_width(mnemonic, space).is_some_and(|bytes| bytes >= 16))
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

fn is_float(mnemonic: &str) -> bool {
    let last = mnemonic.rsplit('.').next().unwrap_or_default();
    matches!(last, "f16" | "f16x2" | "bf16" | "bf16x2" | "f32" | "f32x2" | "f64")
}

fn is_contractible(mnemonic: &str) -> bool {
    let mut parts = mnemonic.split('.');
    matches!(parts.next(), Some("add" | "sub" | "mul"))
        && is_float(mnemonic)
        && !parts.any(|part| matches!(part, "rn" | "rz" | "rm" | "rp"))
}

/// The bytes that a load from `space` reads; `None` for anything else.
fn load_width(mnemonic: &str, space: Space) -> Option<u32> {
    let mut parts = mnemonic.split('.');
    if parts.next() != Some("ld") {
        return None;
    }
    let (mut named, mut vector, mut bits) = (None, 1, 0);
    for part in parts {
        match part {
            "global" => named = Some(Space::Global),
            "shared" | "shared::cta" | "shared::cluster" => named = Some(Space::Shared),
            "const" | "local" | "param" => return None,
            _ => {
                if let Some(count) = part.strip_prefix('v').and_then(|n| n.parse::<u32>().ok()) {
                    vector = count;
                } else if let Some(size) = part.get(1..).and_then(|n| n.parse::<u32>().ok()) {
                    bits = size;
                }
            }
        }
    }
    (named.unwrap_or(Space::Global) == space).then_some(vector * bits / 8)
}

/// Every function that `word` introduces; those that are only declared `.extern` go to `externs`.
fn functions(text: &str, word: &str, externs: &mut Vec<String>) -> Result<Vec<Function>, PtxError> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some((name, end)) = after_word(text, word, from) {
        let unended = || PtxError::Unended(name.clone());
        // A `;` before any `{` makes it a declaration.
        let stop = end + text[end..].find(['{', ';']).ok_or_else(unended)?;
        if text[stop..].starts_with(';') {
            let line = text[..end].rfind('\n').map_or(0, |newline| newline + 1);
            if text[line..end].contains(".extern") {
                externs.push(name);
            }
            from = stop;
            continue;
        }
        let close = matching(text, stop).ok_or_else(unended)?;
        let number = |directive: &str| {
            let (number, _) = after_word(&text[end..stop], directive, 0)?;
            number.trim_end_matches(',').parse().ok()
        };
        let mut function = Function {
            max_threads: number(".maxntid"),
            min_blocks: number(".minnctapersm"),
            name,
            ..Function::default()
        };
        for statement in text[stop + 1..close].split(';') {
            read_statement(statement, &mut function);
        }
        all.push(function);
        from = close;
    }
    Ok(all)
}

/// One statement of a body: a label, scope or predicate may stand before the instruction.
fn read_statement(statement: &str, function: &mut Function) {
    let mut rest = statement.trim();
    loop {
        let word = rest.split_whitespace().next().unwrap_or_default();
        let skip = if rest.starts_with(['{', '}']) {
            1
        } else if word.starts_with('@') {
            word.len()
        } else if let Some(colon) = word.find(':').filter(|&at| !word[at..].starts_with("::")) {
            colon + 1
        } else {
            break;
        };
        rest = rest[skip..].trim_start();
    }
    if rest.starts_with(".local") {
        let size = rest.rsplit_once('[').and_then(|(_, size)| size.strip_suffix(']'));
        function.local_bytes += size.and_then(|size| size.parse::<usize>().ok()).unwrap_or(1);
    }
    let mnemonic = rest.split(|c: char| c.is_whitespace() || c == '{').next().unwrap_or_default();
    if !mnemonic.is_empty() && !mnemonic.starts_with('.') {
        function.mnemonics.push(mnemonic.to_string());
    }
}

/// The name after the next `word` (past a return value in parentheses), and where it ends.
pub(crate) fn after_word(text: &str, word: &str, from: usize) -> Option<(String, usize)> {
    let mut from = from;
    loop {
        let at = from + text.get(from..)?.find(word)?;
        from = at + word.len();
        let alone = !text[..at].ends_with(|c: char| !c.is_whitespace())
            && text[from..].starts_with(|c: char| c.is_whitespace() || c == '(');
        if !alone {
            continue;
        }
        let mut start = from + leading_space(&text[from..]);
        if text[start..].starts_with('(') {
            start += text[start..].find(')')? + 1;
            start += leading_space(&text[start..]);
        }
        let length = text[start..].find(|c: char| c.is_whitespace() || "({;,".contains(c));
        let end = length.map_or(text.len(), |length| start + length);
        return Some((text[start..end].to_string(), end));
    }
}

fn leading_space(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// The place of the brace that closes the one at `open`.
pub(crate) fn matching(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// The text without its `//` and `/* */` comments. Strings (in `.pragma`) are left alone.
pub(crate) fn blank_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            let kept = match rest.starts_with('"') {
                true => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
                false => 1,
            };
            out.push_str(&rest[..kept]);
            kept
        };
        rest = &rest[skip..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
#[path = "ptx_tests.rs"]
mod tests;
