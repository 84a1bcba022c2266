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
    /// Warp shuffles, without [`PASS`].
    pub shuffles: Count,
    /// Compare-and-swaps, each of which must be [`CAS`].
    pub cas: Count,
    /// Releasing stores, see [`RELEASE`].
    pub releases: Count,
    /// Where at least one load of 16 bytes must be from.
    pub wide_loads: Option<Wide>,
    /// [`PASS`]es for each pack of a thread's tile.
    pub passes: usize,
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
    passes: 0,
};

/// The one compare-and-swap that may take a lock.
pub const CAS: &str = "atom.acquire.gpu.global.cas.b32";
/// The store that releases it.
pub const RELEASE: &str = "st.release.gpu.global";

/// The shuffle by which a word goes to the lane before, in a store of rows of any alignment.
pub const PASS: &str = "shfl.sync.down.b32";

/// One row for each kind of entry, `<kernel>_<storage>_v<V>[_any | _early | r<R>_ring | r<R>_shifted]`,
/// `long_<step>_<storage>` or `limit_<storage>`.
///
/// A sum of a block takes, for 1, 2, 4 or 8 values, 9, 11, 13 or 19 shuffles (the lanes share the
/// values out, so that eight take little more than one) around one barrier; twice as many for f64.
/// Forward has two sums of 2 values a row (the second for rows that are gone over again; in `_early` they
/// are one, in a loop), and one more barrier, for the residual, if it is for more than plain work; stage 1
/// of backward has one sum. A ring has 1, 2 or 4 rows at a time, and one more barrier, before what all ask
/// for. The lock has two barriers. What takes rows of any alignment (`_any`, `_shifted`, `long_`) passes each
/// pack that it stores, 4 words, to the lane before (forward without a ring stores x + residual as well).
/// Stage 2 sums through shared memory, around one barrier, and then over four lanes.
pub const TABLE: [Expect; 21] = [
    Expect {
        prefix: "forward_",
        barriers: Exactly(3),
        shuffles: Exactly(22),
        wide_loads: Some(Wide::Global),
        ..NOTHING
    },
    Expect {
        prefix: "forward_",
        suffix: "_early",
        barriers: Exactly(1),
        shuffles: Exactly(11),
        wide_loads: Some(Wide::Global),
        ..NOTHING
    },
    Expect {
        prefix: "forward_",
        suffix: "_ring",
        barriers: Exactly(3),
        shuffles: OneOf(&[22, 26, 38]),
        wide_loads: Some(Wide::Ring),
        ..NOTHING
    },
    Expect {
        prefix: "forward_",
        suffix: "_shifted",
        barriers: Exactly(3),
        shuffles: OneOf(&[22, 26, 38]),
        wide_loads: Some(Wide::Ring),
        passes: 4,
        ..NOTHING
    },
    Expect {
        prefix: "forward_",
        suffix: "_any",
        barriers: Exactly(3),
        shuffles: Exactly(22),
        passes: 8,
        ..NOTHING
    },
    Expect {
        prefix: "forward_f64_",
        suffix: "_any",
        barriers: Exactly(3),
        shuffles: Exactly(44),
        passes: 8,
        ..NOTHING
    },
    Expect {
        prefix: "backward_rows_",
        barriers: Exactly(3),
        shuffles: Exactly(11),
        cas: Exactly(1),
        releases: Exactly(1),
        wide_loads: Some(Wide::Global),
        ..NOTHING
    },
    Expect {
        prefix: "backward_rows_",
        suffix: "_ring",
        barriers: Exactly(4),
        shuffles: OneOf(&[11, 13, 19]),
        cas: Exactly(1),
        releases: Exactly(1),
        wide_loads: Some(Wide::Ring),
        ..NOTHING
    },
    Expect {
        prefix: "backward_rows_",
        suffix: "_shifted",
        barriers: Exactly(4),
        shuffles: OneOf(&[11, 13, 19]),
        cas: Exactly(1),
        releases: Exactly(1),
        wide_loads: Some(Wide::Ring),
        passes: 4,
    },
    Expect {
        prefix: "backward_rows_",
        suffix: "_any",
        barriers: Exactly(3),
        shuffles: Exactly(11),
        cas: Exactly(1),
        releases: Exactly(1),
        passes: 4,
        ..NOTHING
    },
    Expect {
        prefix: "backward_rows_f64_",
        suffix: "_any",
        barriers: Exactly(3),
        shuffles: Exactly(22),
        cas: Exactly(1),
        releases: Exactly(1),
        passes: 4,
        ..NOTHING
    },
    Expect { prefix: "backward_columns_", barriers: Exactly(1), shuffles: Exactly(8), ..NOTHING },
    Expect {
        prefix: "long_sums_",
        barriers: Exactly(1),
        shuffles: OneOf(&[9, 18]),
        passes: 4,
        ..NOTHING
    },
    Expect { prefix: "long_mean_", barriers: Exactly(1), shuffles: OneOf(&[19, 38]), ..NOTHING },
    Expect { prefix: "long_spread_", barriers: Exactly(1), shuffles: OneOf(&[13, 26]), ..NOTHING },
    Expect { prefix: "long_stats_", barriers: Exactly(1), shuffles: OneOf(&[19, 38]), ..NOTHING },
    Expect { prefix: "long_normalise_", passes: 4, ..NOTHING },
    Expect { prefix: "long_dots_", barriers: Exactly(1), shuffles: OneOf(&[11, 22]), ..NOTHING },
    Expect { prefix: "long_means_", barriers: Exactly(1), shuffles: OneOf(&[19, 38]), ..NOTHING },
    Expect {
        prefix: "long_apply_",
        barriers: Exactly(2),
        shuffles: Exactly(0),
        cas: Exactly(1),
        releases: Exactly(1),
        passes: 4,
        ..NOTHING
    },
    Expect { prefix: "limit_", wide_loads: Some(Wide::Global), ..NOTHING },
];

/// What is counted in an entry; equal in two builds by different compilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Barriers of the block.
    pub barriers: usize,
    /// Warp shuffles, without [`PASS`].
    pub shuffles: usize,
    /// [`PASS`]es.
    pub passes: usize,
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
            shuffles: entry.count("shfl.sync") - entry.count(PASS),
            passes: entry.count(PASS),
            cas: entry.count_where(|mnemonic| {
                mnemonic.starts_with("atom.") && mnemonic.split('.').any(|part| part == "cas")
            }),
            releases: entry.count(RELEASE),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { barriers, shuffles, passes, cas, releases } = self;
        write!(
            f,
            "{barriers} barriers, {shuffles} shuffles, {passes} passes, {cas} CAS, {releases} releases"
        )
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

/// Packs of a thread's tile: V x R, or those of a chunk where the name has no V.
fn packs(name: &str) -> usize {
    let tile = name.split('_').find_map(|part| part.strip_prefix('v')).unwrap_or("4");
    tile.split('r').filter_map(|number| number.parse::<usize>().ok()).product()
}

/// The lock's instructions, from taking it to freeing it: the order that docs/lock.md argues with.
const LOCK: [&str; 7] = ["take", "barrier", "read flag", "sums", "barrier", "set flag", "free"];

/// What an entry does from the compare-and-swap to the release, as the text has it.
fn lock(entry: &Function) -> Vec<&'static str> {
    let kinds = [
        (CAS, "take"),
        ("bar", "barrier"),
        ("ld.relaxed.gpu.global", "read flag"),
        ("ld.global.cg", "sums"),
        ("st.global.cg", "sums"),
        ("st.relaxed.gpu.global", "set flag"),
        (RELEASE, "free"),
    ];
    let kind = |mnemonic: &String| {
        kinds.iter().find(|(name, _)| mnemonic.starts_with(name)).map(|(_, kind)| *kind)
    };
    let all = entry.mnemonics.iter().filter_map(kind);
    let mut found: Vec<&str> = all.skip_while(|kind| *kind != "take").collect();
    found.truncate(found.iter().position(|kind| *kind == "free").map_or(found.len(), |at| at + 1));
    found.dedup();
    found
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
        ("passes", counts.passes, Exactly(row.passes * packs(&entry.name))),
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
    } else if counts.cas == 1 && counts.releases == 1 && lock(entry) != LOCK {
        let (found, right) = (lock(entry).join(", "), LOCK.join(", "));
        faults.push(format!("the lock's order is {found}, where {right} is right"));
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
mod tests;
