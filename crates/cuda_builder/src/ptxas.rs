//! NVIDIA's assembler, where there is one: registers, spills and stack frames of the kernels.
//!
//! It comes with a CUDA toolkit, or alone in the PyPI wheel `nvidia-cuda-nvcc`. The build does not
//! need it, as the driver assembles PTX by itself; the checks do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

/// The assembler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptxas {
    /// The program.
    pub path: PathBuf,
}

/// What a kernel needs on one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The kernel.
    pub entry: String,
    /// The architecture it was assembled for, such as `sm_120`.
    pub arch: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes that a thread stores to and loads from memory for want of registers.
    pub spill_bytes: u32,
    /// The thread's stack frame.
    pub stack_bytes: u32,
    /// The block's static shared memory.
    pub smem_bytes: u32,
}

/// Why assembling failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PtxasError {
    /// There is no assembler.
    #[error(
        "no ptxas was found in FERRONORM_PTXAS, PATH, the CUDA toolkit or Python's packages; \
         `pip install nvidia-cuda-nvcc` brings one without a toolkit"
    )]
    NotFound,
    /// It could not be started.
    #[error("cannot run {path}: {source}")]
    Spawn {
        /// The program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It refused the text.
    #[error("ptxas refuses {file} for {arch}:\n{message}")]
    Refused {
        /// The file.
        file: PathBuf,
        /// The architecture.
        arch: String,
        /// What it said.
        message: String,
    },
    /// It said something that this crate does not understand.
    #[error("ptxas on {file} for {arch} says nothing sensible of {what}:\n{message}")]
    Report {
        /// The file.
        file: PathBuf,
        /// The architecture.
        arch: String,
        /// The kernel, or "any kernel".
        what: String,
        /// What it said.
        message: String,
    },
}

impl Ptxas {
    /// Finds it. `FERRONORM_PTXAS` may name the program, a directory that holds it, or one into
    /// which the wheel was unpacked; if it is set, nothing else is tried.
    pub fn find() -> Result<Ptxas, PtxasError> {
        let found = match env::var_os("FERRONORM_PTXAS") {
            Some(chosen) => program_in(Path::new(&chosen)),
            None => on_path()
                .or_else(|| program_in(Path::new("/usr/local/cuda/bin")))
                .or_else(in_site_packages),
        };
        found.map(|path| Ptxas { path }).ok_or(PtxasError::NotFound)
    }

    /// Its version, such as `V13.5.37`; empty if it does not say.
    pub fn version(&self) -> String {
        let output = Command::new(&self.path).arg("--version").stdin(Stdio::null()).output();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
        let text = text.unwrap_or_default();
        text.split([' ', ',', '\n'])
            .find(|word| word.starts_with('V') && word.contains('.'))
            .unwrap_or_default()
            .to_string()
    }

    /// Assembles a file for one architecture, given as its number: 90 for `sm_90`.
    pub fn assemble(&self, file: &Path, arch: u32) -> Result<Vec<Usage>, PtxasError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ferronorm-{}-{count}.cubin", process::id());
        let cubin = env::temp_dir().join(name);
        let arch = format!("sm_{arch}");
        let output = Command::new(&self.path)
            .args(["-v", "-arch", &arch, "-o"])
            .arg(&cubin)
            .arg(file)
            .stdin(Stdio::null())
            .output();
        // Only what it reports is wanted. A refused file leaves no cubin.
        let _ = fs::remove_file(&cubin);
        let output =
            output.map_err(|source| PtxasError::Spawn { path: self.path.clone(), source })?;
        let mut message = String::from_utf8_lossy(&output.stderr).into_owned();
        message.push_str(&String::from_utf8_lossy(&output.stdout));
        let file = file.to_path_buf();
        if !output.status.success() {
            return Err(PtxasError::Refused { file, arch, message });
        }
        parse(&message, &arch).map_err(|what| PtxasError::Report { file, arch, what, message })
    }
}

/// Reads the report of `ptxas -v`; the error names the kernel whose lines make no sense.
fn parse(report: &str, arch: &str) -> Result<Vec<Usage>, String> {
    let mut all: Vec<Usage> = Vec::new();
    // Functions that are no kernels have properties too; a kernel's stack frame includes theirs.
    let mut of_entry = false;
    for line in report.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let (entry, rest) = rest.split_once('\'').ok_or("any kernel")?;
            let arch = rest.split('\'').nth(1).unwrap_or(arch).to_string();
            all.push(Usage {
                entry: entry.to_string(),
                arch,
                registers: 0,
                spill_bytes: 0,
                stack_bytes: 0,
                smem_bytes: 0,
            });
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            of_entry = all.last().is_some_and(|usage| usage.entry == name.trim());
        } else if let Some(usage) = all.last_mut() {
            if line.contains("bytes stack frame") && of_entry {
                let number = |name| before(line, name).ok_or_else(|| usage.entry.clone());
                let frame = number(" bytes stack frame")?;
                let spills = number(" bytes spill stores")? + number(" bytes spill loads")?;
                (usage.stack_bytes, usage.spill_bytes) = (frame, spills);
            } else if let Some((_, used)) = line.split_once("Used ") {
                usage.registers = before(used, " registers").ok_or_else(|| usage.entry.clone())?;
                usage.smem_bytes = before(used, " bytes smem").unwrap_or(0);
            }
        }
    }
    match all.iter().find(|usage| usage.registers == 0) {
        Some(unread) => Err(unread.entry.clone()),
        None => Ok(all),
    }
}

/// The number right before `name`.
fn before(line: &str, name: &str) -> Option<u32> {
    let (left, _) = line.split_once(name)?;
    left.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn program_in(place: &Path) -> Option<PathBuf> {
    let name = format!("ptxas{}", env::consts::EXE_SUFFIX);
    let inside = ["", "bin", "nvidia/cu13/bin", "nvidia/cuda_nvcc/bin"];
    let inside = inside.iter().map(|directory| place.join(directory).join(&name));
    std::iter::once(place.to_path_buf()).chain(inside).find(|path| path.is_file())
}

fn on_path() -> Option<PathBuf> {
    let name = format!("ptxas{}", env::consts::EXE_SUFFIX);
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(&name)).find(|path| path.is_file())
}

/// The wheel, in the packages of the `python3` at hand (a virtual environment's, if one is active).
fn in_site_packages() -> Option<PathBuf> {
    let script = "import site, sys; print('\\n'.join(sys.path + [site.getusersitepackages()]))";
    let output = Command::new("python3").args(["-c", script]).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let places = text.lines().filter(|line| line.ends_with("-packages"));
    places.map(Path::new).find_map(program_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "ptxas info    : 4 bytes gmem
ptxas info    : Compiling entry function 'k1' for 'sm_90'
ptxas info    : Function properties for k1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 15 registers, used 1 barriers
ptxas info    : Compile time = 11.747 ms
ptxas info    : Compiling entry function 'k2' for 'sm_90'
ptxas info    : Function properties for k2
    448 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 448 bytes cumulative stack size, 2112 bytes smem, 380 bytes cmem[0]
ptxas info    : Function properties for helper
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
";

    #[test]
    fn reads_a_report() {
        let usage = |entry: &str, registers, spill_bytes, stack_bytes, smem_bytes| {
            let (entry, arch) = (entry.to_string(), "sm_90".to_string());
            Usage { entry, arch, registers, spill_bytes, stack_bytes, smem_bytes }
        };
        let expected = [usage("k1", 15, 0, 0, 0), usage("k2", 255, 32, 448, 2112)];
        assert_eq!(parse(REPORT, "sm_90").unwrap(), expected);
        assert_eq!(parse("", "sm_90"), Ok(Vec::new()));
    }

    #[test]
    fn names_the_kernel_it_cannot_read() {
        let changed = REPORT.replace("Used 255 registers", "Used many registers");
        assert_eq!(parse(&changed, "sm_90"), Err("k2".into()));
        let cut = &REPORT[..REPORT.find("ptxas info    : Used 255").unwrap()];
        assert_eq!(parse(cut, "sm_90"), Err("k2".into()));
    }
}
