//! Blocks that start late.

use kernels::feed::Share;

use super::*;

fn forward_of(rows: usize, columns: usize, storage: Storage) -> Launch {
    only(&forward(H200, work(rows, columns, storage), Options::default()).unwrap().steps)
}

/// Late blocks, and late tiles.
fn late_of(rows: usize, columns: usize, storage: Storage) -> (u32, usize) {
    let launch = forward_of(rows, columns, storage);
    let tiles = rows.saturating_sub(launch.late.first_row).div_ceil(launch.instance.rows);
    (launch.late.blocks, tiles)
}

#[test]
fn blocks_share_out_every_row_once() {
    let shapes = [(1, 8), (4096, 4096), (4096, 8192), (4097, 15872), (60_001, 40), (131_072, 640)];
    for (storage, (rows, columns)) in
        [F16, F32].into_iter().flat_map(|s| shapes.map(|shape| (s, shape)))
    {
        let Launch { instance, grid, late, .. } = forward_of(rows, columns, storage);
        let mut taken = vec![0; rows];
        for block in 0..grid {
            let share = Share::new(block, grid, instance.rows, rows, late);
            for first in (share.first..share.end).step_by(share.step as usize * instance.rows) {
                let end = share.end.min(first + instance.rows);
                taken[first..end].iter_mut().for_each(|times| *times += 1);
            }
        }
        assert!(taken.iter().all(|times| *times == 1), "{storage} {rows} x {columns}: {late:?}");
    }
}

#[test]
fn late_blocks_are_those_for_which_there_is_no_room() {
    // 396 blocks fit; nine rounds of ten are shared out from the start.
    assert_eq!(late_of(4096, 9216, F16), (532, 532));
    assert_eq!(forward_of(4096, 9216, F16).grid, 396 + 532);
    // Six rounds of 31, by four late blocks for each early one.
    assert_eq!(late_of(131_072, 640, F16), (4 * 2112, 6 * 2112 + 64));
    // Two blocks to a multiprocessor, of 224 threads.
    assert_eq!(late_of(4096, 13312, F16), (264 + 136, 264 + 136));
    // One block to a multiprocessor.
    assert_eq!(late_of(4096, 12288, F32), (2 * 132 + 4, 2 * 132 + 4));
    // Few rounds; room for one more.
    for columns in [4608, 5120] {
        assert_eq!(late_of(4096, columns, F16), (0, 0), "{columns}");
    }
    // Rows that are not whole packs.
    for storage in [F16, F32] {
        assert_eq!(late_of(4096, 8191, storage), (0, 0), "{storage}");
    }
}

#[test]
fn backward_and_chosen_blocks_have_no_late_ones() {
    let work = work(4096, 9216, F16);
    let backward = backward_all(H200, work, Options::default()).unwrap();
    let chosen = Options { blocks: Some(50), ..Options::default() };
    let forward = forward(H200, work, chosen).unwrap();
    for launch in [only(&backward.rows), only(&forward.steps)] {
        assert_eq!(launch.late, Late::NONE, "{}", launch.instance);
    }
    assert_eq!(only(&forward.steps).grid, 50);
}

/// The shapes of `tests/bits.rs`.
#[test]
fn shapes_with_late_blocks() {
    let storages = Storage::ALL.into_iter().filter(|storage| storage.x != DataType::F64);
    for (storage, (rows, columns)) in
        storages.flat_map(|s| [(60_001, 40), (40_000, 520), (2200, 11_000)].map(|shape| (s, shape)))
    {
        assert_ne!(late_of(rows, columns, storage).0, 0, "{storage} {rows} x {columns}");
    }
}
