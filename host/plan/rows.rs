//! Blocks that hold whole rows: how many threads own a row, how many blocks there are, and whether
//! they read through a ring.

use kernels::entry::instance::ring_rows;
use kernels::feed::RingLayout;

use super::{
    DataType, DeviceInfo, Feed, Instance, Kernel, Launch, MAX_GRID, Mode, Options, Storage, Tile,
    Work,
};

/// Threads of a block that holds as long a row as its registers allow.
pub(super) const TEAM_THREADS: usize = 256;

/// The threads that own a row, and packs of each: a function of the kernel, N and type alone, never
/// of the device or of M, so that a row's results have the same bits everywhere and in any batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Team {
    threads: u32,
    packs: usize,
}

impl Team {
    /// GB/s by packs per thread, f16, M = 4096, H200, each at its best grid:
    ///
    /// | N    | packs | forward, 1 | forward, 4 | backward, 1 | backward, 4 |
    /// |------|-------|------------|------------|-------------|-------------|
    /// | 1024 | 128   | 1413       | 1579       | 1254        | 1163        |
    /// | 2048 | 256   | 1872       | 2275       | 1890        | 1771        |
    /// | 4096 | 512   | 2131       | 2857       | 2555        | 2320        |
    ///
    /// Forward gains from small teams, whose collectives are short; backward holds dw and db in
    /// registers, and wants them spread. Past 1024 packs those registers bound the team to 256
    /// threads.
    fn new(kernel: Kernel, columns: usize, dtype: DataType) -> Self {
        let packs = columns.div_ceil(dtype.lanes());
        let one_each = if kernel == Kernel::Forward { 64 } else { 2 * TEAM_THREADS };
        let per_thread = match packs {
            _ if packs <= one_each => 1,
            0..=1024 => 4,
            1025..=2048 => 8,
            _ => 16,
        };
        let threads = packs.div_ceil(per_thread).next_multiple_of(32) as u32;
        Team { threads, packs: per_thread }
    }
}

/// Most tiles that a ring holds: a third one was the last that gained (trial kernels, H200).
const MAX_DEPTH: u32 = 3;

/// The launch of a kernel that goes over rows.
pub(super) fn over_rows(
    device: DeviceInfo,
    work: Work,
    options: Options,
    kernel: Kernel,
) -> Launch {
    let team = Team::new(kernel, work.columns, work.storage.x);
    let ring = ring(device, work, options, kernel, team);
    let (feed, rows, depth, shared_memory, per_multiprocessor) = match ring {
        Some(Ring { rows, depth, shared_memory, blocks }) => {
            (Feed::Ring, rows, depth, shared_memory, blocks)
        }
        None => {
            // The CPU takes a GPU's tiles, to sum dw and db in its order.
            let whole = work.aligned && work.storage.x != DataType::F64;
            let several = options.tile == Tile::Several && device.direct_tiles && whole;
            let rows = if several { ring_rows(team.packs) } else { 1 };
            let feed = if whole { Feed::Direct } else { Feed::Any };
            (feed, rows, 0, 0, resident_blocks(kernel, team))
        }
    };
    let tiles = work.rows.div_ceil(rows).min(MAX_GRID) as u32;
    let grid = match options.mode {
        Mode::Seed => tiles,
        Mode::Persistent => {
            tiles.min(options.blocks.unwrap_or(device.multiprocessors * per_multiprocessor))
        }
    };
    let instance = Instance { kernel, storage: work.storage, packs: team.packs, rows, feed };
    Launch { instance, grid, block: team.threads, shared_memory, depth }
}

/// Blocks per multiprocessor: about 512 threads. Past that, forward gains nothing (N = 2048: 2072,
/// 2275 and 1907 GB/s at 4, 8 and 16 blocks), and backward loses, since each block's dw and db are
/// written and read once more (N = 1024: 1254 and 1174 GB/s at 2 and 4; N = 8192: 2940 and 2626 at
/// 1 and 2; f16, M = 4096, H200).
fn resident_blocks(kernel: Kernel, team: Team) -> u32 {
    match kernel {
        Kernel::Forward => (512 / team.threads).clamp(2, 8),
        _ if team.packs > 1 => 1,
        _ => (512 / team.threads).clamp(1, 2),
    }
}

struct Ring {
    rows: usize,
    depth: u32,
    shared_memory: u32,
    blocks: u32,
}

/// The ring for this work, if it is to have one.
fn ring(
    device: DeviceInfo,
    work: Work,
    options: Options,
    kernel: Kernel,
    team: Team,
) -> Option<Ring> {
    // What a block takes beside its dynamic shared memory: the collectives' scratch, and what CUDA
    // reserves.
    const STATIC: u32 = 1024 + 1024;

    let rows = ring_rows(team.packs);
    // Fewer tiles than multiprocessors would leave some idle that single rows keep busy.
    let few = work.rows < rows * device.multiprocessors as usize;
    let single = match options.tile {
        Tile::Auto => options.mode == Mode::Seed || few,
        Tile::One => true,
        Tile::Several => false,
    };
    let Storage { x, params } = work.storage;
    if !device.ring || !work.aligned || !work.plain || single || x == DataType::F64 {
        return None;
    }
    let row = (work.columns * x.size()) as u32;
    let vector = (work.columns * params.size()) as u32;
    let layout = match kernel {
        Kernel::Forward => RingLayout::new(1, 2, false, rows, row, vector),
        _ => RingLayout::new(2, 1, true, rows, row, vector),
    };
    let most = resident_blocks(kernel, team);
    (1..=most).rev().find_map(|blocks| {
        let share = (device.multiprocessor_shared_memory / blocks)
            .saturating_sub(STATIC)
            .min(device.block_shared_memory.saturating_sub(1024));
        let depth = (share.saturating_sub(layout.slots) / layout.slot_bytes).min(MAX_DEPTH);
        let shared_memory = layout.slots + depth * layout.slot_bytes;
        (depth >= 2).then_some(Ring { rows, depth, shared_memory, blocks })
    })
}
