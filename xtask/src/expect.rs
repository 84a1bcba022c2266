//! What each kernel's PTX must contain. To change an expectation, edit [`TABLE`].
//!
//! Counts of barriers and shuffles guard against the compiler: a pass that copies a barrier into
//! both arms of a divergent branch shows here as one barrier too many, and on the GPU as a hang.

use std::fmt;

use cuda_builder::ptx::{Function, Space};

/// How many are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the table is free to use any of them")]
pub enum Count {
    /// Any number; not yet settled.
    Any,
    /// This many.
    Exactly(usize),
    /// From the first to the second, both included.
    Between(usize, usize),
    /// One of these.
    OneOf(&'static [usize]),
}

use Count::{Any, Between, Exactly, OneOf};

/// The expectations of the entries whose names start alike.
pub struct Expect {
    /// What their names start with: the row with the longest match counts.
    pub prefix: &'static str,
    /// What their names end with; empty for any.
    pub suffix: &'static str,
    /// Barriers of the block.
    pub barriers: Count,
    /// Warp shuffles.
    pub shuffles: Count,
    /// Compare-and-swaps, each of which must be [`CAS`].
    pub cas: Count,
    /// Releasing stores, see [`RELEASE`].
    pub releases: Count,
    /// Where at least one load of 16 bytes must be from.
    pub wide_loads: Option<Wide>,
}

/// How an entry must read its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide {
    /// By 16-byte loads from global memory.
    Global,
    /// By bulk copies into shared memory and 16-byte loads from there.
    Ring,
}

/// No collective, no lock, and any loads.
const NOTHING: Expect = Expect {
    prefix: "",
    suffix: "",
    barriers: Exactly(0),
    shuffles: Exactly(0),
    cas: Exactly(0),
    releases: Exactly(0),
    wide_loads: None,
};

/// The one compare-and-swap that may take a lock.
pub const CAS: &str = "atom.acquire.gpu.global.cas.b32";
/// The store that releases it.
pub const RELEASE: &str = "st.release.gpu.global";

/// One row for each kind of entry, `<kernel>_<storage>_v<V>[r<R>_ring | _any]`,
/// `long_<step>_<storage>` or `limit_<storage>`.
///
/// A sum of a block takes, for 1, 2, 4 or 8 values, 9, 11, 13 or 19 shuffles (the lanes share the
/// values out, so that eight take little more than one) around one barrier; twice as many for f64.
/// Forward has two sums of 2 values a row (the second for rows that are gone over again), and without
/// a ring one more barrier, for the residual; stage 1 of backward has one sum. A ring has 1, 2 or 4 rows at a time, and one more
/// barrier, before its first copy. The lock has two barriers. What takes rows of any alignment
/// (`_any`, `long_`) reads by elements where it must. Stage 2 sums through shared memory, around one
/// barrier, and then over four lanes.
pub const TABLE: [Expect; 18] = [
    Expect {
        prefix: "forward_",
        suffix: "",
        barriers: Exactly(3),
        shuffles: Exactly(22),
        cas: Exactly(0),
        releases: Exactly(0),
        wide_loads: Some(Wide::Global),
    },
    Expect {
        prefix: "forward_",
        suffix: "_ring",
        barriers: Exactly(3),
        shuffles: OneOf(&[22, 26, 38]),
        cas: Exactly(0),
        releases: Exactly(0),
        wide_loads: Some(Wide::Ring),
    },
    Expect {
        prefix: "forward_",
        suffix: "_any",
        barriers: Exactly(3),
        shuffles: Exactly(22),
        cas: Exactly(0),
        releases: Exactly(0),
        wide_loads: None,
    },
    Expect {
        prefix: "forward_f64_",
        suffix: "_any",
        barriers: Exactly(3),
        shuffles: Exactly(44),
        cas: Exactly(0),
        releases: Exactly(0),
        wide_loads: None,
    },
    Expect {
        prefix: "backward_rows_",
        suffix: "",
        barriers: Exactly(3),
        shuffles: Exactly(11),
        cas: Exactly(1),
        releases: Exactly(1),
        wide_loads: Some(Wide::Global),
    },
    Expect {
        prefix: "backward_rows_",
        suffix: "_ring",
        barriers: Exactly(4),
        shuffles: OneOf(&[11, 13, 19]),
        cas: Exactly(1),
        releases: Exactly(1),
        wide_loads: Some(Wide::Ring),
    },
    Expect {
        prefix: "backward_rows_",
        suffix: "_any",
        barriers: Exactly(3),
        shuffles: Exactly(11),
        cas: Exactly(1),
        releases: Exactly(1),
        wide_loads: None,
    },
    Expect {
        prefix: "backward_rows_f64_",
        suffix: "_any",
        barriers: Exactly(3),
        shuffles: Exactly(22),
        cas: Exactly(1),
        releases: Exactly(1),
        wide_loads: None,
    },
    Expect {
        prefix: "backward_columns_",
        suffix: "",
        barriers: Exactly(1),
        shuffles: Exactly(8),
        cas: Exactly(0),
        releases: Exactly(0),
        wide_loads: None,
    },
    Expect {
        prefix: "long_sums_",
        suffix: "",
        barriers: Exactly(1),
        shuffles: OneOf(&[9, 18]),
        cas: Exactly(0),
        releases: Exactly(0),
        wide_loads: None,
    },
    Expect {
        prefix: "long_mean_",
        suffix: "",
        barriers: Exactly(1),
        shuffles: OneOf(&[19, 38]),
        cas: Exactly(0),
        releases: Exactly(0),
        wide_loads: None,
    },
    Expect {
        prefix: "long_spread_",
        suffix: "",
        barriers: Exactly(1),
        shuffles: OneOf(&[13, 26]),
        cas: Exactly(0),
        releases: Exactly(0),
        wide_loads: None,
    },
    Expect {
        prefix: "long_stats_",
        suffix: "",
        barriers: Exactly(1),
        shuffles: OneOf(&[19, 38]),
        cas: Exactly(0),
        releases: Exactly(0),
        wide_loads: None,
    },
    Expect { prefix: "long_normalise_", ..NOTHING },
    Expect {
        prefix: "long_dots_",
        suffix: "",
        barriers: Exactly(1),
        shuffles: OneOf(&[11, 22]),
        cas: Exactly(0),
        releases: Exactly(0),
        wide_loads: None,
    },
    Expect {
        prefix: "long_means_",
        suffix: "",
        barriers: Exactly(1),
        shuffles: OneOf(&[19, 38]),
        cas: Exactly(0),
        releases: Exactly(0),
        wide_loads: None,
    },
    Expect {
        prefix: "long_apply_",
        suffix: "",
        barriers: Exactly(2),
        shuffles: Exactly(0),
        cas: Exactly(1),
        releases: Exactly(1),
        wide_loads: None,
    },
    Expect { prefix: "limit_", wide_loads: Some(Wide::Global), ..NOTHING },
];

/// What is counted in an entry; equal in two builds by different compilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Barriers of the block.
    pub barriers: usize,
    /// Warp shuffles.
    pub shuffles: usize,
    /// Compare-and-swaps of any kind.
    pub cas: usize,
    /// Releasing stores.
    pub releases: usize,
}

impl Counts {
    /// Counts.
    pub fn of(entry: &Function) -> Counts {
        let barriers =
            ["bar.sync", "barrier.sync", "barrier.cta.sync", "bar.red", "barrier.cta.red"];
        Counts {
            barriers: barriers.iter().map(|name| entry.count(name)).sum(),
            shuffles: entry.count("shfl.sync"),
            cas: entry.count_where(|mnemonic| {
                mnemonic.starts_with("atom.") && mnemonic.split('.').any(|part| part == "cas")
            }),
            releases: entry.count(RELEASE),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { barriers, shuffles, cas, releases } = self;
        write!(f, "{barriers} barriers, {shuffles} shuffles, {cas} CAS, {releases} releases")
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Any => f.write_str("any number"),
            Exactly(number) => write!(f, "{number}"),
            Between(low, high) => write!(f, "{low} to {high}"),
            OneOf(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                f.write_str(&numbers.join(" or "))
            }
        }
    }
}

impl Count {
    fn allows(self, number: usize) -> bool {
        match self {
            Any => true,
            Exactly(right) => number == right,
            Between(low, high) => (low..=high).contains(&number),
            OneOf(numbers) => numbers.contains(&number),
        }
    }
}

/// The row for an entry.
fn row(name: &str) -> Option<&'static Expect> {
    TABLE
        .iter()
        .filter(|row| name.starts_with(row.prefix) && name.ends_with(row.suffix))
        .max_by_key(|row| (row.prefix.len(), row.suffix.len()))
}

/// What an entry has that it must not, or lacks.
pub fn unmet(entry: &Function) -> Vec<String> {
    let Some(row) = row(&entry.name) else {
        return vec!["no expectation in xtask/src/expect.rs is for this name".into()];
    };
    let counts = Counts::of(entry);
    let lines = [
        ("barriers", counts.barriers, row.barriers),
        ("shuffles", counts.shuffles, row.shuffles),
        ("compare-and-swaps", counts.cas, row.cas),
        ("releasing stores", counts.releases, row.releases),
    ];
    let mut faults: Vec<String> = lines
        .into_iter()
        .filter(|(_, found, right)| !right.allows(*found))
        .map(|(what, found, right)| format!("{found} {what}, where {right} is right"))
        .collect();
    if counts.cas != entry.count(CAS) {
        faults.push(format!("a compare-and-swap that is not {CAS}"));
    }
    match row.wide_loads {
        Some(Wide::Global) if entry.wide_loads(Space::Global) == 0 => {
            faults.push("no 16-byte load from global memory".into());
        }
        Some(Wide::Ring) => {
            if entry.count("cp.async.bulk") == 0 {
                faults.push("no bulk copy".into());
            }
            if entry.wide_loads(Space::Shared) == 0 {
                faults.push("no 16-byte load from shared memory".into());
            }
        }
        _ => {}
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, mnemonics: &[&str]) -> Function {
        let mnemonics = mnemonics.iter().map(|mnemonic| mnemonic.to_string()).collect();
        Function { name: name.into(), mnemonics, ..Function::default() }
    }

    #[test]
    fn the_longest_row_counts() {
        assert_eq!(row("forward_f16_v1").unwrap().wide_loads, Some(Wide::Global));
        assert_eq!(row("forward_f16_v1r4_ring").unwrap().wide_loads, Some(Wide::Ring));
        assert_eq!(row("backward_columns_f32_v1").unwrap().cas, Exactly(0));
        assert!(row("sideways_f32_v1").is_none());
    }

    /// The faults of a right first stage in which `change` replaces instructions.
    fn stage_1(suffix: &str, change: impl Fn(&'static str) -> Vec<&'static str>) -> Vec<String> {
        let mut right = vec![CAS, "st.release.gpu.global.b32", "bar.sync", "bar.sync", "bar.sync"];
        match suffix {
            "_ring" => right.extend(["bar.sync", "cp.async.bulk.shared", "ld.shared.v4.b32"]),
            _ => right.push("ld.global.nc.v4.b32"),
        }
        right.extend(["shfl.sync.bfly.b32"; 11]);
        let changed: Vec<&str> = right.into_iter().flat_map(change).collect();
        unmet(&entry(&format!("backward_rows_f32_v1{suffix}"), &changed))
    }

    #[test]
    fn a_right_first_stage_has_no_faults() {
        assert_eq!(stage_1("", |right| vec![right]), Vec::<String>::new());
        assert_eq!(stage_1("_ring", |right| vec![right]), Vec::<String>::new());
    }

    #[test]
    fn each_wrong_instruction_is_a_fault() {
        let cases: [(&str, &str, &'static [&'static str]); 8] = [
            ("", CAS, &[CAS, CAS]),
            ("", CAS, &["atom.relaxed.gpu.global.cas.b32"]),
            ("", RELEASE, &["st.relaxed.gpu.global.b32"]),
            ("", "bar.sync", &["bar.sync", "bar.sync"]),
            ("", "shfl.sync", &[]),
            ("", "ld.global", &["ld.global.b32"]),
            ("_ring", "ld.shared", &["ld.global.v4.b32"]),
            ("_ring", "cp.async", &[]),
        ];
        for (suffix, right, wrong) in cases {
            let change = |this: &'static str| {
                if this.starts_with(right) { wrong.to_vec() } else { vec![this] }
            };
            let faults = stage_1(suffix, change);
            assert_eq!(faults.len(), 1, "{right} {wrong:?}: {faults:?}");
        }
        assert_eq!(unmet(&entry("nobody", &[])).len(), 1);
    }

    #[test]
    fn ranges_include_their_ends() {
        assert!(Between(1, 8).allows(1) && Between(1, 8).allows(8));
        assert!(!Between(1, 8).allows(0) && !Between(1, 8).allows(9));
        assert!(OneOf(&[1, 8]).allows(8) && !OneOf(&[1, 8]).allows(7));
        assert!(Any.allows(99) && !Exactly(1).allows(2));
    }
}
