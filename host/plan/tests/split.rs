//! Rows longer than a block holds.

use super::*;

const DEVICES: [DeviceInfo; 3] = [H200, T4, DeviceInfo::CPU];
const ROWS: [usize; 6] = [1, 3, 131, 1151, 1 << 20, 1 << 40];

fn lengths(x: DataType) -> [usize; 6] {
    let longest = longest_held(x);
    [longest + 1, longest + 16, 20_000, 70_001, 1 << 20, 100_000_007]
}

/// What every launch of split rows keeps to.
fn assert_fits(launch: &Launch, pieces: usize) {
    let Launch { instance, grid, block, shared_memory, depth, late } = *launch;
    assert!(instances(true).contains(&instance), "{instance}");
    assert_eq!((block as usize, shared_memory, depth), (LONG_THREADS, 0, 0), "{instance}");
    assert_eq!(late, Late::NONE, "{instance}");
    assert!((1..=MAX_GRID).contains(&(grid as usize)), "{instance}: grid {grid}");
    assert!(grid as usize <= pieces, "{instance}: grid {grid} for {pieces} pieces");
}

fn kernels(steps: &Steps) -> Vec<Kernel> {
    steps.iter().map(|launch| launch.instance.kernel).collect()
}

#[test]
fn the_longest_row_that_is_held() {
    for (x, longest) in [
        (DataType::F64, 4096),
        (DataType::F32, 16384),
        (DataType::F16, 16384),
        (DataType::Bf16, 16384),
    ] {
        assert_eq!(longest_held(x), longest);
        for (columns, steps) in [(longest, 1), (longest + 1, 5)] {
            let work = work(1, columns, Storage::of(x));
            let plan = forward(H200, work, Options::default()).unwrap();
            assert_eq!(plan.steps.iter().count(), steps, "{x}, {columns}");
        }
    }
}

#[test]
fn forward_has_five_steps() {
    let five = [
        Kernel::LongSums,
        Kernel::LongMean,
        Kernel::LongSpread,
        Kernel::LongStats,
        Kernel::LongNormalise,
    ];
    for (storage, device) in Storage::ALL.into_iter().flat_map(|s| DEVICES.map(|d| (s, d))) {
        for (columns, rows) in lengths(storage.x).into_iter().flat_map(|n| ROWS.map(|m| (n, m))) {
            let work = work(rows, columns, storage);
            for options in [Options::default(), seed()] {
                let plan = forward(device, work, options).unwrap();
                assert_eq!(kernels(&plan.steps), five);
                // A chunk is what a block holds, whatever the device.
                let chunks = columns.div_ceil(4 * 256 * storage.x.lanes());
                assert_eq!(plan.chunks.get(), chunks);
                let of_row = [Kernel::LongMean, Kernel::LongStats];
                for launch in plan.steps.iter() {
                    let by_row = of_row.contains(&launch.instance.kernel);
                    assert_fits(launch, if by_row { rows } else { rows * chunks });
                }
                // Two arrays of four numbers a chunk.
                assert_eq!(plan.parts, 2 * rows * chunks * 4 * storage.x.real().size());
            }
        }
    }
}

#[test]
fn backward_has_three_steps_or_one() {
    let three = [Kernel::LongDots, Kernel::LongMeans, Kernel::LongApply];
    let options = [
        Options::default(),
        seed(),
        Options { blocks: Some(2), ..Options::default() },
        Options { blocks: Some(u32::MAX), ..Options::default() },
    ];
    for (storage, device) in Storage::ALL.into_iter().flat_map(|s| DEVICES.map(|d| (s, d))) {
        for (columns, rows) in lengths(storage.x).into_iter().flat_map(|n| ROWS.map(|m| (n, m))) {
            for options in options {
                let work = work(rows, columns, storage);
                let plan = backward_all(device, work, options).unwrap();
                assert_eq!(kernels(&plan.rows), three);
                let chunks = plan.chunks.get();
                assert_eq!(plan.chunks, forward(device, work, options).unwrap().chunks);
                for launch in plan.rows.iter() {
                    let by_row = launch.instance.kernel == Kernel::LongMeans;
                    assert_fits(launch, if by_row { rows } else { rows * chunks });
                }
                // A block stays with a chunk, and so with its columns of dw and db.
                let apply = plan.rows.iter().last().unwrap().grid as usize;
                assert!(apply.is_multiple_of(chunks), "grid {apply}, {chunks} chunks");
                let blocks = apply / chunks;
                if let Some(most) = options.blocks {
                    assert_eq!(blocks, rows.min(most as usize).min(MAX_GRID / chunks));
                } else if options.mode == Mode::Seed {
                    assert_eq!(blocks, rows.min(MAX_GRID / chunks));
                } else {
                    let most = (device.multiprocessors as usize).max(chunks);
                    assert!(apply <= most, "{apply} blocks, {chunks} chunks");
                }
                let groups =
                    if options.mode == Mode::Seed { seed_groups(columns) as usize } else { blocks };
                let used = groups.min(blocks);
                assert_eq!((plan.groups as usize, plan.used_groups as usize), (groups, used));

                assert_eq!(plan.packs.get(), 4 * 256);
                assert_columns_covered(&plan, columns);
                // Four numbers a chunk, and four a row.
                assert_eq!(plan.parts, rows * (chunks + 1) * 4 * storage.x.real().size());

                let want = Want { dx: false, ..Want::ALL };
                let no_dx = backward(device, work, options, want).unwrap();
                assert_eq!(kernels(&no_dx.rows), [Kernel::LongApply]);
                assert_eq!(no_dx.rows.iter().last(), plan.rows.iter().last());
                assert_eq!(no_dx, Backward { rows: no_dx.rows, parts: 0, ..plan });
            }
        }
    }
}
