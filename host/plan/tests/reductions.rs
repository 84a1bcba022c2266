//! How many groups there are, and what is launched for the gradients that are asked for.

use super::*;

const REDUCTIONS: [Reduction; 3] =
    [Reduction::Auto, Reduction::GroupLocks, Reduction::Deterministic];

/// A launch of 200 blocks, also in seed mode, and one of 6 blocks a chunk.
const SHAPES: [([usize; 2], u32); 2] = [([200, 1024], 200), ([6, 70_001], 6)];

fn plan(shape: [usize; 2], options: Options) -> Result<Backward> {
    let options = Options { blocks: Some(200), ..options };
    let plan = backward_all(T4, work(shape[0], shape[1], F32), options)?;
    assert_eq!(plan.used_groups, plan.groups.min(blocks(&plan)));
    Ok(plan)
}

/// Blocks that merge their sums, for each chunk.
fn blocks(plan: &Backward) -> u32 {
    let last = plan.rows.iter().last().expect("a launch");
    last.grid / plan.chunks.get() as u32
}

fn groups(shape: [usize; 2], options: Options) -> Result<u32> {
    plan(shape, options).map(|plan| plan.groups)
}

#[test]
fn groups_of_each_reduction() {
    for (shape, own) in SHAPES {
        let table = seed_groups(shape[1]);
        let found = |mode, reduction| {
            groups(shape, Options { mode, reduction, ..Options::default() }).unwrap()
        };
        assert_eq!(found(Mode::Persistent, Reduction::Auto), own);
        assert_eq!(found(Mode::Persistent, Reduction::Deterministic), own);
        // Locks are shared, even where the seed's table would give each block its own.
        assert_eq!(found(Mode::Persistent, Reduction::GroupLocks), own / 2);
        assert_eq!(found(Mode::Seed, Reduction::Auto), table);
        assert_eq!(found(Mode::Seed, Reduction::GroupLocks), table);
        assert_eq!(found(Mode::Seed, Reduction::Deterministic), own);
    }
    let many = Options { reduction: Reduction::GroupLocks, ..Options::default() };
    assert_eq!(groups([100_000, 8193], Options { blocks: Some(200), ..many }), Ok(64));
}

#[test]
fn groups_of_the_callers_choice() {
    for (shape, own) in SHAPES {
        for mode in [Mode::Persistent, Mode::Seed] {
            for reduction in REDUCTIONS {
                for chosen in [1, own - 1, own, own + 1, 1000] {
                    let options = Options { mode, reduction, groups: Some(chosen), ..seed() };
                    let right = match reduction {
                        Reduction::Deterministic if chosen < own => {
                            Err(Error::Groups { found: chosen, wanted: own })
                        }
                        _ => Ok(chosen),
                    };
                    assert_eq!(groups(shape, options), right, "{options:?}");
                }
            }
        }
    }
}

#[test]
fn a_reduction_of_nothing_has_a_group() {
    for reduction in REDUCTIONS {
        for mode in [Mode::Persistent, Mode::Seed] {
            let options = Options { mode, reduction, ..Options::default() };
            for [rows, columns] in [[0, 8], [0, 70_001], [5, 0]] {
                let plan = backward_all(H200, work(rows, columns, F32), options).unwrap();
                assert!(plan.groups >= 1, "a kernel divides by it");
                assert_eq!(plan.used_groups, 0);
            }
        }
    }
}

#[test]
fn only_what_is_asked_for_is_launched() {
    for columns in [1000, 70_001] {
        let work = work(300, columns, F16);
        let plan = |dx, dw, db| {
            let want = Want { dx, dw, db };
            (want, backward(H200, work, Options::default(), want).unwrap())
        };
        let (_, all) = plan(true, true, true);
        for (want, found) in [(true, false), (false, true), (true, true), (false, false)]
            .into_iter()
            .flat_map(|(dw, db)| [plan(true, dw, db), plan(false, dw, db)])
        {
            let sums = want.dw || want.db;
            assert_eq!(found.columns, all.columns.filter(|_| sums), "{want:?}");
            assert_eq!(found.sums(), if sums { all.sums() } else { 0 }, "{want:?}");
            let launches = found.rows.iter().count();
            let right = match (want.dx, sums, columns) {
                (false, false, _) => 0,
                (true, _, 70_001) => 3,
                _ => 1,
            };
            assert_eq!(launches, right, "{want:?}");
            let parts = if want.dx { all.parts } else { 0 };
            assert_eq!(found.parts, parts, "{want:?}");
        }
    }
}

#[test]
fn rows_are_aligned_if_every_start_is() {
    let whole = |pointers: &[usize], strides: &[usize], columns| {
        aligned(pointers, strides, columns, DataType::F16)
    };
    assert!(whole(&[], &[], 8));
    assert!(whole(&[0, 16, 4096], &[0, 8, 1000], 24));
    assert!(!whole(&[0, 16, 4104], &[8], 24));
    assert!(!whole(&[16], &[8, 12], 24));
    assert!(!whole(&[16], &[8, 16], 12));
    assert!(aligned(&[16], &[12], 4, DataType::F32));
    assert!(aligned(&[16], &[6], 2, DataType::F64));
    assert!(!aligned(&[16], &[6], 3, DataType::F64));
}
