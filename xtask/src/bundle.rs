//! `cargo xtask bundle <dir>`: the programs, for a machine that has a GPU but no Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::ci::{cargo, line};
use crate::error::Error;

/// A program that cargo built.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// `example-verify`, `test-gradients`, `bench-layer_norm`.
    name: String,
    path: PathBuf,
}

/// The kinds of programs: the cargo command that builds them, and the one that reads its messages.
const KINDS: [(&[&str], &str); 3] = [
    (&["build", "--release", "--examples"], "example"),
    (&["test", "--release", "--no-run"], "test"),
    (&["bench", "--no-run"], "bench"),
];

/// Builds and copies all.
pub fn bundle(root: &Path, dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(Error::io(dir))?;
    for (args, kind) in KINDS {
        for program in build(root, args, kind)? {
            let to = dir.join(format!("{}{}", program.name, std::env::consts::EXE_SUFFIX));
            fs::copy(&program.path, &to).map_err(Error::io(&program.path))?;
            println!("{}", to.display());
        }
    }
    Ok(())
}

fn build(root: &Path, args: &[&str], kind: &str) -> Result<Vec<Program>, Error> {
    let mut command = Command::new(cargo());
    command.args(args).arg("--message-format=json-render-diagnostics").current_dir(root);
    eprintln!("$ {}", line(&command));
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Error::Spawn { program: line(&command), source })?;
    if !output.status.success() {
        return Err(Error::Command { command: line(&command), status: output.status });
    }
    let text = String::from_utf8(output.stdout).map_err(|e| Error::Messages(e.to_string()))?;
    programs(&text, kind)
}

/// Picks the programs of a kind out of cargo's messages, one a line.
fn programs(messages: &str, kind: &str) -> Result<Vec<Program>, Error> {
    let mut found = Vec::new();
    // A test harness or build script may print lines of its own.
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value =
            serde_json::from_str(line).map_err(|error| Error::Messages(error.to_string()))?;
        let Some(path) = message["executable"].as_str() else {
            continue;
        };
        let target = &message["target"];
        let target_kind = target["kind"][0].as_str().unwrap_or_default();
        let name = target["name"].as_str().unwrap_or_default();
        let name = match (kind, target_kind) {
            // `cargo test` builds the examples too; they come by themselves.
            ("test", "example" | "bench") => continue,
            ("test", "test") => format!("test-{name}"),
            // The tests inside the library.
            ("test", _) if message["profile"]["test"] == true => format!("test-unit-{name}"),
            (wanted, kind) if wanted == kind => format!("{kind}-{name}"),
            _ => continue,
        };
        found.push(Program { name, path: path.into() });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"ferronorm"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"ferronorm"},"profile":{"test":true},"executable":"/t/ferronorm-1"}
a line of a build script
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"gradients"},"profile":{"test":true},"executable":"/t/gradients-2"}
{"reason":"compiler-artifact","target":{"kind":["example"],"name":"verify"},"profile":{"test":false},"executable":"/t/verify"}
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"layer_norm"},"profile":{"test":true},"executable":"/t/layer_norm-3"}
{"reason":"build-finished","success":true}"#;

    #[test]
    fn picks_programs_by_kind() {
        let names = |kind| -> Vec<String> {
            programs(MESSAGES, kind).unwrap().into_iter().map(|program| program.name).collect()
        };
        assert_eq!(names("example"), ["example-verify"]);
        assert_eq!(names("test"), ["test-unit-ferronorm", "test-gradients"]);
        assert_eq!(names("bench"), ["bench-layer_norm"]);
    }

    #[test]
    fn a_broken_message_is_an_error() {
        assert!(matches!(programs("{\"executable\":", "test"), Err(Error::Messages(_))));
    }
}
