//! The comment lines at the top of a PTX file: what made it, and from what.

/// Where a PTX file came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// What it is, such as `ferronorm kernels for sm_90`.
    pub title: String,
    /// The compiler and its LLVM; two files compare as text only where this is equal.
    pub compiler: String,
    /// The flags and the profile it was given.
    pub flags: String,
    /// `sha256:` and the hash over the sources and flags.
    pub sources: String,
}

impl Provenance {
    /// As the lines of a PTX file.
    pub fn header(&self) -> String {
        let Provenance { title, compiler, flags, sources } = self;
        format!("// {title}\n// compiler: {compiler}\n// flags: {flags}\n// sources: {sources}\n")
    }

    /// Reads the header of a PTX file back; `None` if the text has none.
    pub fn read(text: &str) -> Option<Provenance> {
        let mut lines = text.lines();
        let mut next = |name: &str| {
            let line = lines.next()?.strip_prefix("// ")?.strip_prefix(name)?;
            Some(line.to_string())
        };
        Some(Provenance {
            title: next("")?,
            compiler: next("compiler: ")?,
            flags: next("flags: ")?,
            sources: next("sources: ")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_wrote() {
        let made = Provenance {
            title: "ferronorm kernels for sm_75".into(),
            compiler: "rustc 1.96.0 (ac68faa20 2026-05-25), LLVM 22.1.2".into(),
            flags: "-Ctarget-cpu=sm_75".into(),
            sources: "sha256:00".into(),
        };
        let text = format!("{}.version 6.3\n", made.header());
        assert_eq!(Provenance::read(&text), Some(made));
        assert_eq!(Provenance::read(".version 6.3\n.target sm_75\n"), None);
        assert_eq!(Provenance::read("// a\n// flags: b\n"), None);
    }
}
