//! Assembles PTX for every architecture it serves, and prints what the kernels need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process, thread};

use cuda_builder::ptx::Ptx;
use cuda_builder::ptxas::{Ptxas, PtxasError, Usage};
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::Error;
use crate::expect::Counts;
use crate::ptx::File;

/// One ptxas takes one core and up to a gigabyte; two keep a small CI machine busy.
const AT_A_TIME: usize = 2;

/// A text to assemble.
pub struct Text<'a> {
    /// Of which file.
    pub file: &'a File,
    /// `committed` or `built`.
    pub which: &'static str,
    /// The text.
    pub text: String,
    /// The same, read.
    pub ptx: Ptx,
}

impl Text<'_> {
    fn name(&self) -> String {
        format!("{} ({})", self.file.name(), self.which)
    }
}

/// Assembles all; returns the faults: what ptxas refuses, spills and stack frames.
pub fn assemble(ptxas: &Ptxas, texts: &[Text]) -> Result<Vec<String>, Error> {
    println!("assembling by {} {}", ptxas.path.display(), ptxas.version());
    // A directory of this process, so that two checks at a time do not mix.
    let directory = env::temp_dir().join(format!("ferronorm-check-{}", process::id()));
    fs::create_dir_all(&directory).map_err(Error::io(&directory))?;
    let results = assemble_in(ptxas, texts, &directory);
    // What is left there does no harm.
    let _ = fs::remove_dir_all(&directory);

    let mut faults = Vec::new();
    for (text, results) in texts.iter().zip(results?) {
        let mut usages = Vec::new();
        for result in results {
            match result {
                Ok(list) => usages.extend(list),
                Err(error @ (PtxasError::Refused { .. } | PtxasError::Report { .. })) => {
                    faults.push(error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
        print!("{}", table(text, &usages));
        faults.extend(spills(text, &usages));
    }
    Ok(faults)
}

/// What ptxas says of one text on one architecture.
type Assembled = Result<Vec<Usage>, PtxasError>;

/// Assembles all, [`AT_A_TIME`]; for each text, the results in the order of its architectures.
fn assemble_in(
    ptxas: &Ptxas,
    texts: &[Text],
    directory: &Path,
) -> Result<Vec<Vec<Assembled>>, Error> {
    let mut jobs: Vec<(usize, PathBuf, u32)> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let path = directory.join(format!("{}.{}", text.which, text.file.name()));
        fs::write(&path, &text.text).map_err(Error::io(&path))?;
        jobs.extend(text.file.serves.iter().map(|&arch| (at, path.clone(), arch)));
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
    // Off a terminal, indicatif draws nothing.
    let bar = ProgressBar::new(jobs.len() as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((text, path, arch)) = jobs.get(at) else {
                        break;
                    };
                    bar.set_message(format!("{} for sm_{arch}", texts[*text].name()));
                    let result = ptxas.assemble(path, *arch);
                    let mut results = results.lock().unwrap_or_else(|error| error.into_inner());
                    results.insert(at, (*text, result));
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut by_text: Vec<Vec<Assembled>> = texts.iter().map(|_| Vec::new()).collect();
    let results = results.into_inner().unwrap_or_else(|error| error.into_inner());
    for (text, result) in results.into_values() {
        by_text[text].push(result);
    }
    Ok(by_text)
}

/// Warps that the registers of a multiprocessor hold, of 64 that it can: whole blocks of `threads`. A
/// warp takes registers by 256, of the 65536 that every architecture here has.
fn resident_warps(registers: u32, threads: u32) -> u32 {
    let warps = threads.div_ceil(32).max(1);
    let block = (32 * registers).next_multiple_of(256).max(256) * warps;
    (65536 / block * warps).min(64)
}

/// One line an entry: its registers on each architecture, the most static shared memory on any, the
/// most threads of its blocks, the warps of them that registers leave room for on sm_90, and the
/// barriers and shuffles that are in its text.
fn table(text: &Text, usages: &[Usage]) -> String {
    let (name, serves) = (text.name(), text.file.serves);
    let names = text.ptx.entries.iter().map(|entry| entry.name.len());
    let width = names.chain([name.len()]).max().unwrap_or(0);
    let columns: String = serves.iter().map(|arch| format!("{arch:>5}")).collect();
    let mut lines = format!("{name:width$}{columns}   smem threads warps barriers shuffles\n");
    for entry in &text.ptx.entries {
        let of_entry: Vec<&Usage> = usages.iter().filter(|u| u.entry == entry.name).collect();
        let on = |arch: &u32| {
            let usage = of_entry.iter().find(|usage| usage.arch == format!("sm_{arch}"));
            usage.map(|usage| usage.registers)
        };
        let or_dash = |number: Option<u32>| number.map_or("-".into(), |number| number.to_string());
        let registers: String =
            serves.iter().map(|arch| format!("{:>5}", or_dash(on(arch)))).collect();
        let threads = entry.max_threads;
        let warps = on(&90).zip(threads).map(|(registers, most)| resident_warps(registers, most));
        let blocks = format!("{:>8}{:>6}", or_dash(threads), or_dash(warps));
        let smem = of_entry.iter().map(|usage| usage.smem_bytes).max().unwrap_or(0);
        let Counts { barriers, shuffles, .. } = Counts::of(entry);
        let counts = format!("{smem:>7}{blocks}{barriers:>9}{shuffles:>9}");
        lines.push_str(&format!("{:width$}{registers}{counts}\n", entry.name));
    }
    lines
}

/// One fault for each entry that spills or has a stack frame anywhere.
fn spills(text: &Text, usages: &[Usage]) -> Vec<String> {
    let mut by_entry: BTreeMap<&str, BTreeMap<(u32, u32), Vec<&str>>> = BTreeMap::new();
    for usage in usages {
        let memory = (usage.spill_bytes, usage.stack_bytes);
        if memory != (0, 0) {
            let alike = by_entry.entry(&usage.entry).or_default();
            alike.entry(memory).or_default().push(&usage.arch);
        }
    }
    let name = text.name();
    let describe = |((spilled, frame), archs): (&(u32, u32), &Vec<&str>)| {
        format!("{spilled} bytes spilled, {frame} of stack ({})", archs.join(" "))
    };
    let fault = |(entry, alike): (&str, BTreeMap<(u32, u32), Vec<&str>>)| {
        let alike: Vec<String> = alike.iter().map(describe).collect();
        format!("{name}: {entry}: {}", alike.join(", "))
    };
    by_entry.into_iter().map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::FILES;

    fn usage(entry: &str, arch: &str, registers: u32, spill_bytes: u32, smem_bytes: u32) -> Usage {
        let (entry, arch) = (entry.to_string(), arch.to_string());
        Usage { entry, arch, registers, spill_bytes, stack_bytes: 0, smem_bytes }
    }

    fn text() -> Text<'static> {
        let text = ".version 8.0\n.target sm_90\n.visible .entry k()\n.maxntid 256, 1, 1\n{\nbar.sync 0;\nret;\n}\n";
        let ptx = Ptx::parse(text).unwrap();
        Text { file: &FILES[1], which: "built", text: text.into(), ptx }
    }

    #[test]
    fn a_line_an_entry() {
        let list = [usage("k", "sm_90", 40, 0, 128), usage("k", "sm_120", 38, 0, 1152)];
        let table = table(&text(), &list);
        let lines: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[0][..5], ["ferronorm.sm_90.ptx", "(built)", "90", "100", "120"]);
        assert_eq!(lines[1], ["k", "40", "-", "38", "1152", "256", "48", "1", "0"]);
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn an_entry_that_spills_is_one_fault() {
        let list = [
            usage("k", "sm_90", 255, 8, 0),
            usage("k", "sm_100", 255, 8, 0),
            usage("k", "sm_120", 255, 16, 0),
            usage("l", "sm_90", 40, 0, 0),
        ];
        let faults = spills(&text(), &list);
        assert_eq!(faults.len(), 1);
        let right = "ferronorm.sm_90.ptx (built): k: 8 bytes spilled, 0 of stack (sm_90 sm_100), \
                     16 bytes spilled, 0 of stack (sm_120)";
        assert_eq!(faults[0], right);
    }
}
