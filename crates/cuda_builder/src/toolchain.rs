//! Finds a compiler for the device: rustc and cargo that have the sources of `core`.
//!
//! rustup and distributions ship no `core` for `nvptx64-nvidia-cuda`, so it is compiled along with
//! the kernels (`-Zbuild-std=core`), from the compiler's own sources. The released compiler takes
//! that flag with `RUSTC_BOOTSTRAP=1`; a nightly is not needed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The version that the kernels are developed with. The PTX text depends on it.
pub const REQUIRED: &str = "1.96.0";

/// A compiler for the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// The compiler.
    pub rustc: PathBuf,
    /// Its cargo.
    pub cargo: PathBuf,
    /// What `rustc -vV` says of itself.
    pub version: Version,
}

/// What a rustc says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The first line, such as `rustc 1.96.0 (ac68faa20 2026-05-25)`.
    pub line: String,
    /// The release alone, such as `1.96.0`.
    pub release: String,
    /// The version of its LLVM, such as `22.1.2`.
    pub llvm: String,
}

impl Version {
    /// Reads the output of `rustc -vV`.
    pub fn parse(text: &str) -> Option<Version> {
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(value.trim().to_string())
        };
        Some(Version {
            line: text.lines().next()?.trim().to_string(),
            release: field("release:")?,
            llvm: field("LLVM version:")?,
        })
    }

    /// Names the compiler in a PTX file. Two builds of the same release by different parties count
    /// as different compilers: their LLVM differs, and with it the text.
    pub fn describe(&self) -> String {
        format!("{}, LLVM {}", self.line, self.llvm)
    }
}

/// Why there is no compiler for the device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolchainError {
    /// Nothing fits.
    #[error(
        "no compiler for the device was found: it takes rustc {REQUIRED} with its library sources\n\
         looked at:\n{}\n\
         install it by one of\n\
         \x20   rustup toolchain install {REQUIRED} --component rust-src\n\
         \x20   apt-get install rustc-web cargo-web rust-web-src\n\
         or point FERRONORM_DEVICE_RUSTC and FERRONORM_DEVICE_CARGO at one",
        looked.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
    )]
    NotFound {
        /// Each place that was tried, and what is wrong with it.
        looked: Vec<String>,
    },
    /// `FERRONORM_DEVICE_RUSTC` names something that does not serve.
    #[error("FERRONORM_DEVICE_RUSTC: {0}")]
    Override(String),
}

impl Toolchain {
    /// Finds one: the environment's choice first, then rustup's, then the distribution's.
    pub fn find() -> Result<Toolchain, ToolchainError> {
        if let Some(rustc) = env::var_os("FERRONORM_DEVICE_RUSTC") {
            let rustc = PathBuf::from(rustc);
            let cargo = env::var_os("FERRONORM_DEVICE_CARGO")
                .map_or_else(|| rustc.with_file_name(exe("cargo")), PathBuf::from);
            return Toolchain::at(rustc, cargo).map_err(ToolchainError::Override);
        }
        let mut looked = Vec::new();
        let bins = rustup_bins(&mut looked).into_iter().chain([PathBuf::from("/usr/bin")]);
        for bin in bins {
            match Toolchain::at(bin.join(exe("rustc")), bin.join(exe("cargo"))) {
                Ok(found) => return Ok(found),
                Err(why) => looked.push(why),
            }
        }
        Err(ToolchainError::NotFound { looked })
    }

    /// The one at these paths, or what is wrong with it.
    fn at(rustc: PathBuf, cargo: PathBuf) -> Result<Toolchain, String> {
        for program in [&rustc, &cargo] {
            if !program.is_file() {
                return Err(format!("{}: not there", program.display()));
            }
        }
        let verbose = output(&rustc, &["-vV"])?;
        let version = Version::parse(&verbose)
            .ok_or_else(|| format!("{}: `-vV` makes no sense", rustc.display()))?;
        let sysroot = output(&rustc, &["--print", "sysroot"])?;
        let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
        if !library.join("core").is_dir() {
            let (rustc, library) = (rustc.display(), library.display());
            return Err(format!("{rustc}: no library sources at {library}"));
        }
        Ok(Toolchain { rustc, cargo, version })
    }

    /// Set when the version is another than [`REQUIRED`]: it may well compile, but its PTX will not
    /// be the same text.
    pub fn note(&self) -> Option<String> {
        (self.version.release != REQUIRED).then(|| {
            format!(
                "{} is {}, where {REQUIRED} is asked for",
                self.rustc.display(),
                self.version.release
            )
        })
    }
}

/// The `bin` of rustup's toolchains of the required version. rustup's own proxies are passed by:
/// they would obey the `rust-toolchain.toml` of the project, which names the host's compiler.
fn rustup_bins(looked: &mut Vec<String>) -> Vec<PathBuf> {
    let home = env::var_os("RUSTUP_HOME").map(PathBuf::from).or_else(|| {
        let home = env::var_os("HOME").or_else(|| env::var_os("USERPROFILE"))?;
        Some(PathBuf::from(home).join(".rustup"))
    });
    let Some(toolchains) = home.map(|home| home.join("toolchains")) else {
        return Vec::new();
    };
    let prefix = format!("{REQUIRED}-");
    let mut bins: Vec<PathBuf> = fs::read_dir(&toolchains)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path().join("bin"))
        .collect();
    bins.sort();
    if bins.is_empty() {
        looked.push(format!("{}: no toolchain {REQUIRED}", toolchains.display()));
    }
    bins
}

fn exe(name: &str) -> OsString {
    format!("{name}{}", env::consts::EXE_SUFFIX).into()
}

fn output(program: &Path, args: &[&str]) -> Result<String, String> {
    let fault = |what: String| format!("{} {}: {what}", program.display(), args.join(" "));
    let output =
        Command::new(program).args(args).output().map_err(|error| fault(error.to_string()))?;
    if !output.status.success() {
        return Err(fault(output.status.to_string()));
    }
    String::from_utf8(output.stdout).map_err(|_| fault("not UTF-8".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERBOSE: &str = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)
binary: rustc
commit-hash: ac68faa20c58cbccd01ee7208bf3b6e93a7d7f96
commit-date: 2026-05-25
host: x86_64-unknown-linux-gnu
release: 1.96.0
LLVM version: 22.1.8
";

    #[test]
    fn reads_a_verbose_version() {
        let version = Version::parse(VERBOSE).unwrap();
        assert_eq!(version.release, "1.96.0");
        assert_eq!(version.llvm, "22.1.8");
        assert_eq!(
            version.describe(),
            "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball), LLVM 22.1.8"
        );
        assert_eq!(Version::parse("rustc 1.96.0"), None);
    }

    #[test]
    fn notes_another_version_only() {
        let mut found = Toolchain {
            rustc: "/x/rustc".into(),
            cargo: "/x/cargo".into(),
            version: Version::parse(VERBOSE).unwrap(),
        };
        assert_eq!(found.note(), None);
        found.version.release = "1.97.1".into();
        assert!(found.note().unwrap().contains("1.97.1"));
    }

    #[test]
    fn not_found_names_both_ways_to_install() {
        let text = ToolchainError::NotFound { looked: vec!["a: not there".into()] }.to_string();
        assert!(text.contains("\n    a: not there\n"), "{text}");
        assert!(text.contains("rustup toolchain install 1.96.0 --component rust-src"), "{text}");
        assert!(text.contains("apt-get install rustc-web cargo-web rust-web-src"), "{text}");
    }
}
