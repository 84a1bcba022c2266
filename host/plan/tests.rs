use std::collections::BTreeSet;

use kernels::feed::RingLayout;

use super::*;
use crate::ptx;

mod late;
mod reductions;
mod split;

const H200: DeviceInfo = DeviceInfo {
    multiprocessors: 132,
    block_shared_memory: 232_448,
    multiprocessor_shared_memory: 233_472,
    ring: true,
    direct_tiles: false,
};

/// A device whose kernels have no ring.
const T4: DeviceInfo = DeviceInfo {
    multiprocessors: 40,
    block_shared_memory: 65_536,
    multiprocessor_shared_memory: 65_536,
    ring: false,
    direct_tiles: false,
};

const F16: Storage = Storage::of(DataType::F16);
const F32: Storage = Storage::of(DataType::F32);

fn work(rows: usize, columns: usize, storage: Storage) -> Work {
    let aligned = columns.is_multiple_of(storage.x.lanes());
    Work { rows, columns, storage, aligned, plain: true }
}

fn seed() -> Options {
    Options { mode: Mode::Seed, ..Options::default() }
}

/// Backward with all gradients.
fn backward_all(device: DeviceInfo, work: Work, options: Options) -> Result<Backward> {
    backward(device, work, options, Want::ALL)
}

/// The launch of rows that are not split.
fn only(steps: &Steps) -> Launch {
    let launches: Vec<Launch> = steps.iter().copied().collect();
    let [launch] = launches[..] else { panic!("not one launch: {launches:?}") };
    launch
}

/// Stage 2 covers dw and db, each chunk by itself.
fn assert_columns_covered(plan: &Backward, columns: usize) {
    let (x, chunks, packs) = (plan.storage.x, plan.chunks.get(), plan.packs.get());
    let launch = plan.columns.expect("dw and db are asked for");
    let only = Instance::only(Kernel::BackwardColumns, plan.storage);
    assert_eq!((launch.instance, launch.block), (only, COLUMN_THREADS as u32));
    let grid = launch.grid as usize;
    assert!((1..=MAX_GRID).contains(&grid) && grid.is_multiple_of(chunks), "{grid}");
    assert!(packs * chunks * x.lanes() >= columns, "{packs} packs, {chunks} chunks: {columns}");
    let held = grid / chunks * QUADS_PER_BLOCK * x.real().lanes();
    assert!(held >= 2 * packs * x.lanes(), "{grid} blocks for {columns}");
    let sums = plan.groups as usize * chunks * 2 * packs * x.lanes() * x.real().size();
    assert_eq!((plan.sums(), plan.locks()), (sums, 2 * plan.groups as usize * chunks));
}

#[test]
fn every_instance_is_an_entry_and_every_entry_an_instance() {
    for ptx in ptx::all().unwrap() {
        let entries: BTreeSet<String> = ptx
            .text
            .lines()
            .filter_map(|line| line.strip_prefix(".visible .entry "))
            .map(|line| line.trim_end_matches('(').to_owned())
            .collect();
        let ring = ptx.target >= ptx::RING_TARGET;
        let named: BTreeSet<String> = instances(ring).iter().map(Instance::to_string).collect();
        assert_eq!(entries, named, "sm_{}", ptx.target);
    }
}

#[test]
fn no_two_instances_have_one_name() {
    let names: BTreeSet<String> = instances(true).iter().map(Instance::to_string).collect();
    assert_eq!(names.len(), instances(true).len());
    let all = instances(true);
    assert!(instances(false).iter().all(|i| all.contains(i) && !i.feed.is_ring()));
}

#[test]
fn plans_fit_the_device_and_name_compiled_kernels() {
    for (device, storage) in [H200, T4].into_iter().flat_map(|d| Storage::ALL.map(|s| (d, s))) {
        let known = instances(device.ring);
        let longest = longest_held(storage.x);
        let more = [8, 1024, 4096, 8192, longest].into_iter().filter(|n| *n <= longest);
        for columns in (1..=longest).step_by(17).chain(more) {
            for rows in [1, 3, 131, 1151, 4096, 1 << 40] {
                let work = work(rows, columns, storage);
                let plan = backward_all(device, work, Options::default()).unwrap();
                let forward = forward(device, work, Options::default()).unwrap();
                assert_eq!((forward.chunks, forward.parts), (NonZeroUsize::MIN, 0));
                assert_eq!((plan.chunks, plan.parts), (NonZeroUsize::MIN, 0));
                for launch in [only(&plan.rows), only(&forward.steps)] {
                    let Launch { instance, grid, block, shared_memory, depth, late } = launch;
                    assert!(known.contains(&instance), "{instance}");
                    assert_eq!(instance.storage, storage);
                    assert!(block.is_multiple_of(32) && block <= 512);
                    let held = instance.packs * block as usize * storage.x.lanes();
                    assert!(held >= columns, "{instance} on {block} threads holds {held}");
                    assert!(grid >= 1 && grid as usize <= rows.min(MAX_GRID));
                    // An mbarrier for each slot, and one for the vectors.
                    assert!(8 * (1 + depth) <= RingLayout::VECTORS);
                    assert!(
                        shared_memory == 0 || shared_memory + 1024 <= device.block_shared_memory
                    );
                    let least = if instance.kernel == Kernel::Forward { 1 } else { 2 };
                    assert_eq!(instance.feed.is_ring(), depth >= least);
                    assert!(late == Late::NONE || instance.feed.is_ring());
                }
                assert_eq!(plan.groups, only(&plan.rows).grid);
                assert_eq!(plan.used_groups, plan.groups);
                assert!(known.contains(&plan.columns.unwrap().instance));
                assert_columns_covered(&plan, columns);
            }
        }
    }
}

#[test]
fn the_team_does_not_depend_on_device_rows_or_mode() {
    for storage in Storage::ALL {
        let columns = [1, 33, 1000, 1025, 4096, 8192, 15872];
        for columns in columns.into_iter().filter(|n| *n <= longest_held(storage.x)) {
            let team = |device, rows, mode| {
                let options = Options { mode, ..Options::default() };
                let launch = forward(device, work(rows, columns, storage), options).unwrap();
                let launch = only(&launch.steps);
                (launch.instance.packs, launch.block)
            };
            let one = team(DeviceInfo::CPU, 1, Mode::Persistent);
            assert_eq!(one, team(H200, 4096, Mode::Persistent));
            assert_eq!(one, team(H200, 4096, Mode::Seed));
            // Of w and b it does not depend either: rows have the same bits with f32 weights.
            let own = work(4096, columns, Storage::of(storage.x));
            let own = only(&forward(H200, own, Options::default()).unwrap().steps);
            assert_eq!(one, (own.instance.packs, own.block));
        }
    }
}

#[test]
fn forward_has_three_packs_a_thread_where_four_would_take_as_many_threads() {
    for (storage, columns, right) in [
        (F16, 512, (1, 64)),
        (F16, 520, (3, 32)),
        (F16, 768, (3, 32)),
        (F16, 776, (4, 32)),
        (F16, 1024, (4, 32)),
        (F16, 1025, (3, 64)),
        (F16, 1536, (3, 64)),
        (F16, 1544, (4, 64)),
        (F16, 2304, (3, 96)),
        (F16, 2312, (4, 96)),
        (F16, 4096, (4, 128)),
        (F16, 4104, (8, 96)),
        (F32, 384, (3, 32)),
        (F32, 768, (3, 64)),
        (F32, 1152, (3, 96)),
        (F32, 1156, (4, 96)),
    ] {
        let launch =
            only(&forward(H200, work(4096, columns, storage), Options::default()).unwrap().steps);
        assert_eq!((launch.instance.packs, launch.block), right, "{storage} {columns}");
    }
}

#[test]
fn seed_mode_has_a_block_a_row_and_the_table_of_groups() {
    for (columns, groups) in [(1024, 256), (1025, 128), (4096, 128), (8192, 96), (8193, 64)] {
        let plan = backward_all(H200, work(1151, columns, F16), seed()).unwrap();
        let rows = only(&plan.rows);
        assert_eq!((rows.grid, plan.groups), (1151, groups), "{columns}");
        assert_eq!(rows.instance.rows, 1);
    }
    let few = backward_all(H200, work(10, 1024, F16), seed()).unwrap();
    assert_eq!((few.groups, few.used_groups), (256, 10));
    // A grid has an end; blocks then take several rows.
    let most = backward_all(H200, work(1 << 40, 1024, F16), seed()).unwrap();
    assert_eq!((only(&most.rows).grid as usize, most.used_groups), (MAX_GRID, 256));
    let most = forward(H200, work(1 << 40, 1024, F16), seed()).unwrap();
    assert_eq!(only(&most.steps).grid as usize, MAX_GRID);
}

#[test]
fn options_of_zero_are_refused() {
    let (default, zero) = (Options::default(), Some(0));
    for (option, options) in [
        ("groups", Options { groups: zero, ..default }),
        ("blocks", Options { blocks: zero, ..default }),
    ] {
        let error = Error::ZeroOption { option };
        // Even where there is nothing to do.
        for [rows, columns] in [[1, 8], [0, 8], [1, 0], [1, 1 << 20]] {
            let work = work(rows, columns, F32);
            assert_eq!(backward_all(H200, work, options), Err(error.clone()));
            assert_eq!(forward(H200, work, options), Err(error.clone()));
        }
    }
}

#[test]
fn no_rows_no_launch() {
    for storage in Storage::ALL {
        for columns in [1, 8, 1000, 4096, 4097, 16384, 16385, 70001] {
            let work = work(0, columns, storage);
            let forward = forward(H200, work, Options::default()).unwrap();
            assert_eq!((forward.steps, forward.parts), (Steps::default(), 0));
            for options in [Options::default(), Options { blocks: Some(7), ..Options::default() }] {
                let plan = backward_all(H200, work, options).unwrap();
                assert_eq!((plan.rows, plan.parts), (Steps::default(), 0));
                assert_eq!((plan.used_groups, plan.groups), (0, 1));
                // dw and db are written, as zeros.
                assert_columns_covered(&plan, columns);
            }
            let plan = backward_all(H200, work, seed()).unwrap();
            assert_eq!((plan.rows, plan.used_groups), (Steps::default(), 0));
            assert_columns_covered(&plan, columns);
        }
    }
}

#[test]
fn no_columns_no_launch() {
    for (storage, rows) in Storage::ALL.into_iter().flat_map(|s| [0, 1, 1 << 40].map(|m| (s, m))) {
        let work = work(rows, 0, storage);
        for options in [Options::default(), seed()] {
            let forward = forward(H200, work, options).unwrap();
            assert_eq!((forward.steps, forward.parts), (Steps::default(), 0));
            let plan = backward_all(H200, work, options).unwrap();
            assert_eq!((plan.rows, plan.columns, plan.parts), (Steps::default(), None, 0));
            assert_eq!((plan.sums(), plan.used_groups), (0, 0));
        }
    }
}

#[test]
fn long_rows_of_forward_do_with_one_tile() {
    let blocks_and_tiles = [
        (F16, 9216, (396, 2)),
        (F16, 10240, (396, 1)),
        (F16, 12288, (264, 2)),
        (F16, 13312, (264, 2)),
        (F16, 14336, (264, 1)),
        (F16, 15872, (264, 1)),
        (F32, 7168, (264, 1)),
        (F32, 8704, (132, 2)),
        (F32, 12288, (132, 2)),
        (F32, 15872, (132, 1)),
    ];
    for (storage, columns, right) in blocks_and_tiles {
        let plan = forward(H200, work(4096, columns, storage), Options::default()).unwrap();
        let Launch { grid, depth, late, .. } = only(&plan.steps);
        assert_eq!((grid - late.blocks, depth), right, "{storage} rows of {columns}");
    }
}

#[test]
fn only_plain_work_goes_through_a_ring() {
    let plain = work(4096, 9216, Storage::of(DataType::F16));
    for work in [plain, Work { plain: false, ..plain }] {
        let forward = forward(H200, work, Options::default()).unwrap();
        let backward = backward(H200, work, Options::default(), Want::ALL).unwrap();
        for launch in forward.steps.iter().chain(backward.rows.iter()) {
            assert_eq!(launch.instance.feed.is_ring(), work.plain, "{}", launch.instance);
        }
    }
}

#[test]
fn f32_rows_have_a_ring_as_long_as_two_tiles_have_room() {
    for (columns, feed) in [(12288, Feed::Ring), (14336, Feed::Ring), (14848, Feed::Direct)] {
        let plan = backward_all(H200, work(4096, columns, F32), Options::default()).unwrap();
        assert_eq!(only(&plan.rows).instance.feed, feed, "{columns}");
    }
}

#[test]
fn forward_of_unaligned_16_bit_rows_of_a_pack_a_lane_has_no_ring() {
    let feeds = |storage, columns| {
        let work = work(4096, columns, storage);
        let forward = forward(H200, work, Options::default()).unwrap();
        let backward = backward_all(H200, work, Options::default()).unwrap();
        [only(&forward.steps), only(&backward.rows)].map(|launch| launch.instance.feed)
    };
    for columns in [127, 255] {
        assert_eq!(feeds(F16, columns), [Feed::Any, Feed::Shifted], "{columns}");
    }
    for (storage, columns) in [(F16, 511), (F16, 1023), (F16, 1025), (F32, 127), (F32, 1023)] {
        assert_eq!(feeds(storage, columns), [Feed::Shifted; 2], "{storage} {columns}");
    }
    assert_eq!(feeds(F16, 1024), [Feed::Early, Feed::Ring]);
}

#[test]
fn forward_has_a_block_for_each_row_where_that_is_faster() {
    let feed = |device, work, options| {
        let launch = only(&forward(device, work, options).unwrap().steps);
        assert!(launch.instance.feed != Feed::Early || launch.grid as usize == work.rows);
        launch.instance.feed
    };
    for (storage, rows, columns, right) in [
        (F16, 1, 1024, Feed::Early),
        (F16, 1024, 256, Feed::Early),
        (F16, 4096, 256, Feed::Ring),
        (F16, 16384, 512, Feed::Early),
        (F16, 131_072, 512, Feed::Ring),
        (F16, 4096, 520, Feed::Early),
        (F16, 131_072, 768, Feed::Early),
        (F16, 65536, 1280, Feed::Ring),
        (F16, 131_072, 1024, Feed::Early),
        (F16, 8192, 1536, Feed::Early),
        (F16, 16384, 1280, Feed::Early),
        (F16, 65536, 1536, Feed::Early),
        (F16, 65536, 4096, Feed::Early),
        (F16, 4096, 5120, Feed::Ring),
        (F16, 4096, 6144, Feed::Early),
        (F16, 65536, 8192, Feed::Early),
        (F16, 4096, 8200, Feed::Ring),
        (F16, 4096, 15872, Feed::Ring),
        (F32, 32768, 640, Feed::Early),
        (F32, 32768, 1024, Feed::Early),
        (F32, 4096, 2052, Feed::Early),
        (F32, 4096, 5120, Feed::Early),
        (F32, 4096, 6144, Feed::Ring),
        (F32, 4096, 8192, Feed::Early),
        (F32, 4096, 8196, Feed::Ring),
    ] {
        let found = feed(H200, work(rows, columns, storage), Options::default());
        assert_eq!(found, right, "{storage} {rows} x {columns}");
    }
    // More rows than a grid has blocks.
    let rows = work(1 << 31, 1024, F16);
    assert_eq!(feed(H200, rows, Options::default()), Feed::Ring);
    let short = work(4096, 1024, F16);
    let mixed = Storage { x: DataType::F16, params: DataType::F32 };
    assert_eq!(feed(H200, work(4096, 1024, mixed), Options::default()), Feed::Ring);
    assert_eq!(feed(H200, Work { plain: false, ..short }, Options::default()), Feed::Direct);
    assert_eq!(feed(H200, Work { aligned: false, ..short }, Options::default()), Feed::Shifted);
    assert_eq!(feed(T4, short, Options::default()), Feed::Direct);
    // What is asked for is done.
    for (options, right) in [
        (Options { tile: Tile::Several, ..Options::default() }, Feed::Ring),
        (Options { blocks: Some(132), ..Options::default() }, Feed::Ring),
        (Options { tile: Tile::One, ..Options::default() }, Feed::Direct),
        (Options { mode: Mode::Seed, ..Options::default() }, Feed::Direct),
    ] {
        assert_eq!(feed(H200, short, options), right, "{options:?}");
    }
}
