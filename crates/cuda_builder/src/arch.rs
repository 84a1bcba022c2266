//! The architectures that PTX is made for, and the compiler flags for each.

use std::fmt;

/// A GPU architecture that PTX can be compiled for.
///
/// PTX for one architecture also runs on every later one, so a library needs only a base and the
/// architectures whose own instructions it uses. Kernels see the choice as
/// `cfg(target_feature = "sm_90")`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// Turing.
    Sm75,
    /// Ampere, data centre.
    Sm80,
    /// Ampere, desktop.
    Sm86,
    /// Ada.
    Sm89,
    /// Hopper. Compiled as PTX ISA 8.0, the first with bulk copies.
    Sm90,
    /// Blackwell, data centre.
    Sm100,
    /// Blackwell, desktop.
    Sm120,
}

impl Arch {
    /// Every architecture, oldest first.
    pub const ALL: [Arch; 7] =
        [Arch::Sm75, Arch::Sm80, Arch::Sm86, Arch::Sm89, Arch::Sm90, Arch::Sm100, Arch::Sm120];

    /// The name that rustc, ptxas and `.target` use: `sm_90`.
    pub fn name(self) -> &'static str {
        match self {
            Arch::Sm75 => "sm_75",
            Arch::Sm80 => "sm_80",
            Arch::Sm86 => "sm_86",
            Arch::Sm89 => "sm_89",
            Arch::Sm90 => "sm_90",
            Arch::Sm100 => "sm_100",
            Arch::Sm120 => "sm_120",
        }
    }

    /// The number in the name: 90 for `sm_90`, that is compute capability 9.0.
    pub fn number(self) -> u32 {
        match self {
            Arch::Sm75 => 75,
            Arch::Sm80 => 80,
            Arch::Sm86 => 86,
            Arch::Sm89 => 89,
            Arch::Sm90 => 90,
            Arch::Sm100 => 100,
            Arch::Sm120 => 120,
        }
    }

    /// What rustc is told, apart from the profile. Part of the provenance of a PTX file.
    ///
    /// - The PTX ISA is what LLVM takes by default for the architecture (6.3 for `sm_75`), except
    ///   for `sm_90`: LLVM's 7.8 has no bulk copies.
    /// - Without `-JumpThreading`, that MIR pass copies a barrier into both arms of a divergent
    ///   `if`, and the block deadlocks.
    /// - Without the unroll threshold, arrays that are indexed in loops land in local memory: the
    ///   loops are unrolled too late for them to become registers.
    /// - Without the inline threshold, a large phase of a kernel that is called from two places
    ///   stays a function, and what it works on goes to local memory.
    pub fn rustflags(self) -> Vec<String> {
        let mut flags = vec![format!("-Ctarget-cpu={}", self.name())];
        if self == Arch::Sm90 {
            flags.push("-Ctarget-feature=+ptx80".into());
        }
        flags.push("-Zmir-enable-passes=-JumpThreading".into());
        flags.push("-Cllvm-args=-unroll-threshold=20000".into());
        flags.push("-Cllvm-args=-inline-threshold=1000000".into());
        flags
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for arch in Arch::ALL {
            assert_eq!(arch.name(), format!("sm_{}", arch.number()));
            assert_eq!(arch.rustflags()[0], format!("-Ctarget-cpu={arch}"));
        }
        assert!(Arch::ALL.is_sorted());
    }

    #[test]
    fn only_hopper_asks_for_a_ptx_version() {
        for arch in Arch::ALL {
            let asks = arch.rustflags().iter().any(|flag| flag.contains("target-feature"));
            assert_eq!(asks, arch == Arch::Sm90, "{arch}");
        }
    }
}
