use std::collections::BTreeSet;

use super::*;
use crate::ptx;

const H200: DeviceInfo = DeviceInfo {
    multiprocessors: 132,
    block_shared_memory: 232_448,
    multiprocessor_shared_memory: 233_472,
    ring: true,
    direct_tiles: false,
};

fn work(rows: usize, columns: usize, dtype: DataType) -> Work {
    let aligned = columns.is_multiple_of(dtype.lanes());
    Work { rows, columns, dtype, aligned }
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
        let named: BTreeSet<String> = instances(ring).map(|i| i.to_string()).collect();
        assert_eq!(entries, named, "sm_{}", ptx.target);
    }
}

#[test]
fn plans_fit_the_device_and_name_compiled_kernels() {
    let known: Vec<Instance> = instances(true).collect();
    for dtype in DataType::ALL {
        for columns in (1..=MAX_COLUMNS).step_by(17).chain([8, 1024, 4096, 8192, MAX_COLUMNS]) {
            for rows in [1, 3, 131, 1151, 4096, 1 << 40] {
                let plan = backward(H200, work(rows, columns, dtype), Options::default()).unwrap();
                let forward =
                    forward(H200, work(rows, columns, dtype), Options::default()).unwrap();
                for launch in [plan.rows, forward] {
                    let Launch { instance, grid, block, shared_memory, depth } = launch;
                    assert!(known.contains(&instance), "{instance}");
                    assert!(block.is_multiple_of(32) && block <= 512);
                    let held = instance.packs * block as usize * dtype.lanes();
                    assert!(held >= columns, "{instance} on {block} threads holds {held}");
                    assert!(grid >= 1 && grid as usize <= rows);
                    assert!(shared_memory + 1024 <= H200.block_shared_memory);
                    assert_eq!(instance.feed == Feed::Ring, depth >= 2);
                }
                assert_eq!(plan.groups, plan.rows.grid);
                assert!(plan.packs * dtype.lanes() >= columns);
                assert!(plan.columns.grid as usize * QUADS_PER_BLOCK * 4 >= 2 * columns);
            }
        }
    }
}

#[test]
fn the_team_does_not_depend_on_device_rows_or_mode() {
    for dtype in DataType::ALL {
        for columns in [1, 33, 1000, 1025, 8192, 15872] {
            let team = |device, rows, mode| {
                let options = Options { mode, ..Options::default() };
                let launch = forward(device, work(rows, columns, dtype), options).unwrap();
                (launch.instance.packs, launch.block)
            };
            let one = team(DeviceInfo::CPU, 1, Mode::Persistent);
            assert_eq!(one, team(H200, 4096, Mode::Persistent));
            assert_eq!(one, team(H200, 4096, Mode::Seed));
        }
    }
}

#[test]
fn seed_mode_has_a_block_a_row_and_the_table_of_groups() {
    let options = Options { mode: Mode::Seed, ..Options::default() };
    for (columns, groups) in [(1024, 256), (1025, 128), (4096, 128), (8192, 96), (8193, 64)] {
        let plan = backward(H200, work(1151, columns, DataType::F16), options).unwrap();
        assert_eq!((plan.rows.grid, plan.groups), (1151, groups), "{columns}");
        assert_eq!(plan.rows.instance.rows, 1);
    }
    let few = backward(H200, work(10, 1024, DataType::F16), options).unwrap();
    assert_eq!((few.groups, few.used_groups()), (256, 10));
}

#[test]
fn bad_work_is_refused() {
    for columns in [0, MAX_COLUMNS + 1] {
        let error = forward(H200, work(1, columns, DataType::F32), Options::default());
        assert_eq!(error, Err(Error::Columns { found: columns, most: MAX_COLUMNS }));
    }
    let options = Options { groups: Some(0), ..Options::default() };
    let error = backward(H200, work(1, 8, DataType::F32), options);
    assert_eq!(error, Err(Error::ZeroOption { option: "groups" }));
}

#[test]
fn no_rows_no_launch() {
    let plan = backward(H200, work(0, 8, DataType::F32), Options::default()).unwrap();
    assert_eq!((plan.rows.grid, plan.used_groups(), plan.groups), (0, 0, 1));
    assert!(plan.columns.grid > 0, "dw and db are written, as zeros");
}
