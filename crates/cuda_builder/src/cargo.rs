//! The two cargo commands: `metadata`, for what is in the crate, and `rustc`, for its assembly.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::Value;

use crate::arch::Arch;
use crate::error::BuildError;
use crate::toolchain::Toolchain;

/// rustc's name of the target.
const TARGET: &str = "nvptx64-nvidia-cuda";

/// The profile, whatever the workspace's says. Debug info breaks PTX; an unwinding panic, several
/// codegen units, link-time optimisation or overflow checks leave calls that nothing defines.
pub(crate) const PROFILE: [&str; 8] = [
    "opt-level=3",
    "debug=0",
    "panic=\"abort\"",
    "codegen-units=1",
    "lto=\"off\"",
    "overflow-checks=false",
    "debug-assertions=false",
    "incremental=false",
];

/// What cargo knows of a crate.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest: PathBuf,
    /// The name of its library, as in file names.
    pub(crate) lib: String,
    /// Directories of the crates it depends on by path.
    pub(crate) path_dependencies: Vec<PathBuf>,
    pub(crate) workspace_root: PathBuf,
    pub(crate) target_directory: PathBuf,
}

impl Package {
    pub(crate) fn directory(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new("."))
    }
}

/// Asks cargo about the crate in `directory`.
pub(crate) fn package(toolchain: &Toolchain, directory: &Path) -> Result<Package, BuildError> {
    let manifest = directory.join("Cargo.toml");
    let manifest = fs::canonicalize(&manifest).map_err(BuildError::io(&manifest))?;
    let mut command = clean_command(toolchain);
    command.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(&manifest);
    let output = command
        .output()
        .map_err(|source| BuildError::Spawn { program: toolchain.cargo.clone(), source })?;
    let fault = |message: String| BuildError::Metadata { manifest: manifest.clone(), message };
    if !output.status.success() {
        return Err(fault(String::from_utf8_lossy(&output.stderr).trim().to_string()));
    }
    let answer =
        serde_json::from_slice(&output.stdout).map_err(|error| fault(error.to_string()))?;
    read_package(&answer, &manifest).map_err(fault)
}

/// Picks the package of `manifest` out of the answer.
fn read_package(answer: &Value, manifest: &Path) -> Result<Package, String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value, name: &str| {
        value[name].as_str().map(str::to_string).ok_or_else(|| format!("no `{name}` in the answer"))
    };
    let found = list(&answer["packages"])
        .into_iter()
        .find(|package| package["manifest_path"].as_str().map(Path::new) == Some(manifest))
        .ok_or("it has no package")?;
    let is_lib = |target: &&Value| {
        let kinds = list(&target["kind"]);
        kinds.iter().any(|kind| matches!(kind.as_str(), Some("lib" | "rlib" | "cdylib")))
    };
    let targets = list(&found["targets"]);
    let lib = targets.iter().find(is_lib).ok_or("the package has no library")?;
    Ok(Package {
        name: text(&found, "name")?,
        manifest: manifest.to_path_buf(),
        lib: text(lib, "name")?.replace('-', "_"),
        path_dependencies: list(&found["dependencies"])
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| dependency["path"].as_str().map(PathBuf::from))
            .collect(),
        workspace_root: text(answer, "workspace_root")?.into(),
        target_directory: text(answer, "target_directory")?.into(),
    })
}

/// Compiles the crate and returns the assembly's text.
///
/// The crate itself is compiled anew each time (`core` is not): cargo does not know of the
/// assembly, so a build that it holds for done would leave none, or that of other sources.
pub(crate) fn assembly(
    toolchain: &Toolchain,
    package: &Package,
    arch: Arch,
    target_dir: &Path,
) -> Result<String, BuildError> {
    fs::create_dir_all(target_dir).map_err(BuildError::io(target_dir))?;
    for stale in assembly_files(target_dir, &package.lib) {
        fs::remove_file(&stale).map_err(BuildError::io(&stale))?;
    }
    let mut clean = clean_command(toolchain);
    clean.args(["clean", "--quiet", "--release", "--target", TARGET, "--target-dir"]);
    clean.arg(target_dir).arg("--manifest-path").arg(&package.manifest);
    clean.args(["-p", &package.name]);
    run(clean)?;

    let mut command = clean_command(toolchain);
    command.args(["rustc", "--release", "--target", TARGET, "-Zbuild-std=core", "--target-dir"]);
    command.arg(target_dir).arg("--manifest-path").arg(&package.manifest);
    for setting in PROFILE {
        command.arg("--config").arg(format!("profile.release.{setting}"));
    }
    command.args(["-p", &package.name, "--lib", "--crate-type=rlib", "--", "--emit=asm"]);
    let mut flags = arch.rustflags();
    // No path of this machine may show in the PTX.
    flags.push(format!("--remap-path-prefix={}=.", package.workspace_root.display()));
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    run(command)?;

    let made = assembly_files(target_dir, &package.lib);
    let [file] = made.as_slice() else {
        return Err(BuildError::Assembly {
            name: package.lib.clone(),
            directory: target_dir.to_path_buf(),
            found: made.len(),
        });
    };
    fs::read_to_string(file).map_err(BuildError::io(file))
}

/// Cargo with none of an outer cargo's settings: they are the host's.
fn clean_command(toolchain: &Toolchain) -> Command {
    let mut command = Command::new(&toolchain.cargo);
    for (name, _) in env::vars_os() {
        if inherited(&name) {
            command.env_remove(name);
        }
    }
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", &toolchain.rustc)
        // Empty means none, also against a wrapper in the user's cargo configuration.
        .env("RUSTC_WRAPPER", "")
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        .stdin(Stdio::null());
    command
}

/// Whether a variable steers the host's build. `CARGO_TARGET_DIR`, `CARGO_HOME` and the like stay:
/// they say where things are, not how to compile.
fn inherited(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let exact = [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "CARGO_INCREMENTAL",
        "CARGO_MAKEFLAGS",
        "MAKEFLAGS",
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_LINKER",
        "RUSTDOC",
        "RUSTUP_TOOLCHAIN",
        "CARGO",
        "LD_LIBRARY_PATH",
    ];
    let prefixes = ["CARGO_PROFILE_", "CARGO_TARGET_NVPTX64_", "CARGO_PKG_", "CARGO_MANIFEST_"];
    exact.contains(&&*name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

fn run(mut command: Command) -> Result<(), BuildError> {
    let program = PathBuf::from(command.get_program());
    let status = command.status().map_err(|source| BuildError::Spawn { program, source })?;
    if status.success() {
        return Ok(());
    }
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    Err(BuildError::Compile { status, command: words.join(" ") })
}

/// Every `<lib>-<hash>.s` under `directory`, at whatever depth this cargo keeps them.
fn assembly_files(directory: &Path, lib: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(assembly_files(&path, lib));
        } else if path.file_name().is_some_and(|name| is_assembly(&name.to_string_lossy(), lib)) {
            found.push(path);
        }
    }
    found
}

fn is_assembly(file: &str, lib: &str) -> bool {
    file.strip_prefix(lib)
        .and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".s"))
        .is_some_and(|hash| !hash.is_empty() && hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_its_assembly_by_name() {
        assert!(is_assembly("kernels-ebee69915beb187d.s", "kernels"));
        assert!(!is_assembly("kernels-ebee69915beb187d.d", "kernels"));
        assert!(!is_assembly("kernels-extra-ebee69915beb187d.s", "kernels"));
        assert!(!is_assembly("kernels.s", "kernels"));
    }

    #[test]
    fn drops_what_steers_the_host_build_only() {
        for name in ["RUSTFLAGS", "RUSTUP_TOOLCHAIN", "CARGO_PROFILE_RELEASE_DEBUG"] {
            assert!(inherited(OsStr::new(name)), "{name}");
        }
        for name in ["CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_NET_OFFLINE", "PATH"] {
            assert!(!inherited(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn reads_the_package_out_of_the_answer() {
        let answer = serde_json::json!({
            "workspace_root": "/w", "target_directory": "/w/target",
            "packages": [
                { "name": "other", "manifest_path": "/w/Cargo.toml", "targets": [] },
                { "name": "my-kernels", "manifest_path": "/w/k/Cargo.toml",
                  "targets": [{ "kind": ["lib"], "name": "my-lib" }],
                  "dependencies": [
                    { "name": "half", "kind": null },
                    { "name": "std", "kind": null, "path": "/w/std" },
                    { "name": "checks", "kind": "dev", "path": "/w/checks" } ] } ]
        });
        let package = read_package(&answer, Path::new("/w/k/Cargo.toml")).unwrap();
        assert_eq!((package.name.as_str(), package.lib.as_str()), ("my-kernels", "my_lib"));
        assert_eq!(package.path_dependencies, [PathBuf::from("/w/std")]);
        let fault = read_package(&answer, Path::new("/w/Cargo.toml")).unwrap_err();
        assert!(fault.contains("no library"), "{fault}");
    }
}
