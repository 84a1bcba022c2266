//! The built PTX, embedded, and the choice of a file for a device.
//!
//! `cargo xtask ptx` builds the files; each names its compiler, flags and a hash of its sources.

use crate::{Error, Result};

/// A PTX file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ptx<'a> {
    /// The whole text.
    pub text: &'a str,
    /// Version of the PTX language, such as (8, 0).
    pub version: (u32, u32),
    /// The oldest architecture that it runs on: compute capability times ten.
    pub target: u32,
}

/// The built files, newest architecture first.
const TEXTS: [&str; 2] =
    [include_str!("ptx/ferronorm.sm_90.ptx"), include_str!("ptx/ferronorm.sm_75.ptx")];

/// The target from which on kernels read through a ring of bulk copies.
pub const RING_TARGET: u32 = 90;

impl<'a> Ptx<'a> {
    /// Reads the `.version` and `.target` directives of a text.
    ///
    /// # Errors
    ///
    /// [`Error::Ptx`] where one is missing.
    pub fn parse(text: &'a str) -> Result<Self> {
        let directive = |name: &'static str| {
            let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name));
            line.map(str::trim).ok_or(Error::Ptx { directive: name })
        };
        let version = directive(".version")?;
        let version = version
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .ok_or(Error::Ptx { directive: ".version" })?;
        let target = directive(".target")?
            .split([',', ' '])
            .find_map(|target| target.strip_prefix("sm_")?.parse().ok())
            .ok_or(Error::Ptx { directive: ".target" })?;
        Ok(Ptx { text, version, target })
    }

    /// The text before the first entry point, and each entry point's name and text: a prelude and
    /// one entry are a module by themselves.
    pub fn entries(&self) -> (&'a str, impl Iterator<Item = (&'a str, &'a str)>) {
        const ENTRY: &str = ".visible .entry ";
        let start = self.text.find(ENTRY).unwrap_or(self.text.len());
        let (prelude, entries) = self.text.split_at(start);
        let entries = entries.split(ENTRY).skip(1).map(move |rest| {
            let name = rest.split('(').next().unwrap_or_default();
            // The text from this entry's own `.visible .entry` to the next one's.
            let start = rest.as_ptr() as usize - self.text.as_ptr() as usize - ENTRY.len();
            (name, &self.text[start..start + ENTRY.len() + rest.len()])
        });
        (prelude, entries)
    }

    /// The first CUDA version whose driver takes this file (PTX ISA, "Release Notes").
    pub fn cuda(&self) -> (u32, u32) {
        match self.version {
            (6, minor) => (10, minor.saturating_sub(3)),
            (7, minor) => (11, minor),
            (8, minor @ 0..=5) => (12, minor),
            (8, minor) => (12, minor + 1),
            (major, minor) => (major + 4, minor),
        }
    }

    /// Whether a device of this compute capability (times ten) runs the file, with a driver that
    /// serves CUDA version `driver`.
    ///
    /// # Errors
    ///
    /// [`Error::Architecture`] where the device is too old, else [`Error::DriverTooOld`].
    pub fn check(&self, capability: u32, driver: (u32, u32)) -> Result<()> {
        if capability < self.target {
            return Err(Error::Architecture { found: capability, needed: self.target });
        }
        if driver < self.cuda() {
            return Err(Error::DriverTooOld { driver, ptx: self.version, needed: self.cuda() });
        }
        Ok(())
    }
}

/// The built files, newest architecture first.
///
/// # Errors
///
/// [`Error::Ptx`] if a built file lacks a directive; a test keeps that from happening.
pub fn all() -> Result<[Ptx<'static>; 2]> {
    Ok([Ptx::parse(TEXTS[0])?, Ptx::parse(TEXTS[1])?])
}

/// The newest built file that passes [`Ptx::check`].
///
/// # Errors
///
/// Those of the check of the oldest file.
pub fn pick(capability: u32, driver: (u32, u32)) -> Result<Ptx<'static>> {
    let [newest, oldest] = all()?;
    match newest.check(capability, driver) {
        Ok(()) => Ok(newest),
        Err(_) => oldest.check(capability, driver).map(|()| oldest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_by_capability_and_driver() {
        assert_eq!(pick(90, (13, 0)).unwrap().target, 90);
        assert_eq!(pick(120, (13, 0)).unwrap().target, 90);
        assert_eq!(pick(89, (13, 0)).unwrap().target, 75);
        assert_eq!(pick(90, (11, 8)).unwrap().target, 75);
        assert_eq!(pick(70, (13, 0)), Err(Error::Architecture { found: 70, needed: 75 }));
        assert_eq!(
            pick(75, (9, 2)),
            Err(Error::DriverTooOld { driver: (9, 2), ptx: (6, 3), needed: (10, 0) })
        );
    }

    #[test]
    fn entries_make_up_the_text() {
        for ptx in all().unwrap() {
            let (prelude, entries) = ptx.entries();
            let (mut whole, mut count) = (prelude.to_owned(), 0);
            for (name, text) in entries {
                assert!(text.starts_with(&format!(".visible .entry {name}(")), "{name}");
                assert!(text.trim_end().ends_with('}'), "{name}");
                whole += text;
                count += 1;
            }
            assert_eq!(whole, ptx.text);
            assert_eq!(count, ptx.text.matches(".visible .entry").count());
        }
    }

    #[test]
    fn a_text_without_directives_is_refused() {
        assert_eq!(Ptx::parse("").unwrap_err(), Error::Ptx { directive: ".version" });
        let no_target = Ptx::parse(".version 8.0").unwrap_err();
        assert_eq!(no_target, Error::Ptx { directive: ".target" });
        let ptx = Ptx::parse("// x\n.version 99.1\n.target sm_90a, debug\n");
        assert!(ptx.is_err(), "sm_90a runs on 9.0 alone and is not a number");
    }
}
