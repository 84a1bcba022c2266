//! Blocks that hold whole rows: how many threads own a row, how many blocks there are, and whether
//! they read through a ring.

use kernels::args::Late;
use kernels::entry::instance::{has_early, leaves_w_out, packs, ring_rows, team_threads};
use kernels::feed::RingLayout;

use super::{
    DataType, DeviceInfo, Feed, Instance, Kernel, Launch, MAX_GRID, Mode, Options, Storage, Tile,
    Work,
};

/// The threads that own a row, and packs of each: a function of the kernel, N and type alone, never
/// of the device or of M, so that a row's results have the same bits everywhere and in any batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Team {
    threads: u32,
    packs: usize,
}

impl Team {
    /// As few packs a thread as [`team_threads`] allows. (us by packs a thread, f16, M = 4096, H200:
    /// forward, N = 4096: 30.3, 23.7, 22.5 with 1, 2, 4; N = 8192: 46.0, 40.8, 39.3 with 2, 4, 8;
    /// backward, N = 4096: 38.4, 37.3, 43.4 with 1, 2, 4; N = 8192: 63.3, 64.0 with 2, 4.)
    ///
    /// Forward has three where four would take as many threads, and leave at least a quarter idle. (us
    /// with 4 and 3: N = 768: 8.4, 7.8; 1280: 11.6, 10.7; 1536: 11.9, 11.2; 2304: 15.6, 14.6; f32, 768: 11.3,
    /// 10.9; rows that are not whole packs, 767: 15.9, 11.9; 1535: 22.8, 18.5.)
    fn new(kernel: Kernel, columns: usize, dtype: DataType) -> Self {
        let all = columns.div_ceil(dtype.lanes());
        let threads = |packs: usize| all.div_ceil(packs).next_multiple_of(32);
        let fits = |packs: &&usize| {
            let three = kernel == Kernel::Forward && **packs == 3;
            threads(**packs) <= team_threads(kernel, dtype, **packs)
                && !(three && threads(4) < threads(3))
        };
        let there_are = packs(kernel, dtype);
        let packs = there_are.iter().find(fits).or(there_are.last()).copied().unwrap_or(1);
        Team { threads: threads(packs) as u32, packs }
    }
}

/// The launch of a kernel that goes over rows.
pub(super) fn over_rows(
    device: DeviceInfo,
    work: Work,
    options: Options,
    kernel: Kernel,
) -> Launch {
    let team = Team::new(kernel, work.columns, work.storage.x);
    let instance = |rows, feed| {
        let (storage, packs) = (work.storage, team.packs);
        Instance { kernel, storage, packs, rows, feed }
    };
    if kernel == Kernel::Forward && reads_early(device, work, options, team) {
        return Launch {
            instance: instance(1, Feed::Early),
            grid: work.rows as u32,
            block: team.threads,
            shared_memory: 0,
            depth: 0,
            late: Late::NONE,
        };
    }
    let ring = ring(device, work, options, kernel, team);
    let (feed, rows, depth, shared_memory, per_multiprocessor) = match ring {
        Some(Ring { rows, depth, shared_memory, blocks }) => {
            let feed = if work.aligned { Feed::Ring } else { Feed::Shifted };
            (feed, rows, depth, shared_memory, blocks)
        }
        None => {
            // The CPU takes a GPU's tiles, to sum dw and db in its order.
            let several = options.tile == Tile::Several && device.direct_tiles && has_ring(work);
            let rows = if several { tile_rows(kernel, team) } else { 1 };
            let whole = work.aligned && work.storage.x != DataType::F64;
            let feed = if whole { Feed::Direct } else { Feed::Any };
            (feed, rows, 0, 0, direct_blocks(kernel, team))
        }
    };
    let tiles = work.rows.div_ceil(rows).min(MAX_GRID) as u32;
    let grid = match options.mode {
        Mode::Seed => tiles,
        Mode::Persistent => {
            tiles.min(options.blocks.unwrap_or(device.multiprocessors * per_multiprocessor))
        }
    };
    let late = match ring {
        Some(ring) if kernel == Kernel::Forward && options.blocks.is_none() => {
            late(device, work, team, ring, grid)
        }
        _ => Late::NONE,
    };
    let (instance, grid) = (instance(rows, feed), grid + late.blocks);
    Launch { instance, grid, block: team.threads, shared_memory, depth, late }
}

/// Rows of a tile of a ring. Backward of one or two packs a thread gains from several, whose
/// collectives are one, until its blocks have 16 warps: 50.6 us with 2 rows and 53.6 with 1 for
/// N = 6144, 66.8 and 64.2 for N = 8192 (f16, M = 4096, H200).
fn tile_rows(kernel: Kernel, team: Team) -> usize {
    let there_are = ring_rows(kernel, team.packs);
    let rows = if team.threads <= 384 { there_are.last() } else { there_are.first() };
    rows.copied().unwrap_or(1)
}

/// Blocks per multiprocessor of a kernel without a ring. Its loads overlap only between blocks.
///
/// GB/s by blocks per multiprocessor (f16, M = 4096, H200; forward with the kernels of then):
///
/// | N    | forward, 4 | 8    | 16   | backward, 1 | 2    | 4    |
/// |------|------------|------|------|-------------|------|------|
/// | 1024 | 842        | 1192 | 1473 | 476         | 730  | 969  |
/// | 2048 | 1351       | 1780 | 1789 | 845         | 1246 | 1153 |
/// | 4096 | 2046       | 2064 | 2312 | 1420        | 1345 | 1210 |
fn direct_blocks(kernel: Kernel, team: Team) -> u32 {
    match kernel {
        Kernel::Forward => (2048 / team.threads).clamp(1, 32),
        _ => (512 / team.threads).clamp(1, 4),
    }
}

/// Whether forward has a block for each row. It has nothing to set up, and shares rows out as they are
/// done; but a block costs its start, and one whose team the row does not fill reads less at a time. us
/// through the ring, and so (H200):
///
/// | rows  | f16, N = 256 | 512        | 768        | 1024       | 1536       | 2048       | 3328       | 4096       |
/// |-------|--------------|------------|------------|------------|------------|------------|------------|------------|
/// | 1024  | 5.9, 5.0     | 6.3, 5.3   | 6.3, 5.8   | 6.6, 5.9   | 7.3, 6.7   | 7.7, 7.1   | 9.5, 8.8   | 9.8, 9.1   |
/// | 4096  | 6.6, 6.7     | 7.9, 7.4   | 8.9, 7.8   | 9.7, 8.6   | 12.3, 11.3 | 14.1, 13.2 | 19.2, 19.6 | 22.2, 21.8 |
/// | 8192  | 7.9, 9.1     | 11.2, 10.2 | 12.6, 11.6 | 14.5, 13.2 | 17.8, 17.6 | 22.4, 21.5 | 32.4, 33.2 | 37.9, 37.1 |
/// | 16384 | 11.9, 14.0   | 16.7, 15.8 | 18.1, 18.0 | 22.2, 21.7 | 30.0, 29.7 | 37.8, 36.7 |            | 72.1, 69.8 |
/// | 65536 |              |            | 55.0, 54.3 | 71.3, 69.8 | 104, 102   | 138, 131   |            | 274, 259   |
///
/// | rows  | f16, N = 5120 | 6144       | 8192       | f32, N = 256 | 640        | 1024       | 3072       | 5120       | 8192       |
/// |-------|---------------|------------|------------|--------------|------------|------------|------------|------------|------------|
/// | 1024  | 11.5, 12.0    | 12.1, 12.3 | 14.4, 14.2 | 6.4, 5.4     | 6.8, 6.1   | 7.6, 6.6   | 11.7, 11.2 | 16.3, 15.8 | 22.9, 22.3 |
/// | 4096  | 27.0, 28.2    | 31.0, 30.6 | 38.2, 38.4 | 8.1, 7.5     | 11.5, 10.2 | 13.6, 13.0 | 30.7, 29.4 | 46.5, 44.6 | 72.6, 70.5 |
/// | 32768 |               | 206, 201   | 276, 262   |              | 51.2, 46.8 | 71.7, 69.0 | 204, 195   | 340, 318   | 546, 521   |
///
/// Blocks of V = 8 share registers for 512 threads, and lose where that leaves an eighth or more of them
/// idle (f32, N = 6144, 192 threads: 55.1, 57.6), or where a row of 16 bits has more than four warps (f16,
/// 10240: 47.0, 48.1; 15872: 70.0, 75.1). A row that ends early in its last packs gains most: the ring's
/// tiles of several rows do not suit it (4096 rows of f16: N = 520: 10.5, 7.7; 1032: 13.4, 10.4). Very many
/// short rows are the ring's, if they do not fill their team (131072 of f16, N = 512: 89.1, 94.5; 65536, N = 1280:
/// 89.4, 92.6).
fn reads_early(device: DeviceInfo, work: Work, options: Options, team: Team) -> bool {
    let plain = work.plain && work.aligned && has_early(work.storage);
    let free = options.mode == Mode::Persistent && options.tile == Tile::Auto;
    if !device.ring || !plain || !free || options.blocks.is_some() || work.rows > MAX_GRID {
        return false;
    }
    let Team { threads, packs } = team;
    let f32 = work.storage.x == DataType::F32;
    // Few threads in all, for each multiprocessor.
    let few = |most| work.rows * threads as usize <= most * device.multiprocessors as usize;
    let slots = threads as usize * packs;
    let row = work.columns.div_ceil(work.storage.x.lanes());
    let full = if f32 { 4 * row > 3 * slots } else { 20 * row >= 19 * slots };
    match packs {
        1 => few(if threads == 32 { 512 } else { 8000 }),
        3 => full || few(8000),
        4 => full || few(4000),
        _ if f32 => threads <= 256 && 512 % threads < 64 && (full || few(4000)),
        _ => threads <= 128 && full,
    }
}

/// The rows that blocks are to share that start late, where others have ended. Multiprocessors get
/// through equal shares at different speeds: forward of f16, N = 8192, M = 4096: in 26 to 36 us.
///
/// A late block has nothing ahead of time, which costs where there are few rounds of tiles, or where it
/// has its multiprocessor for itself, or where the vectors are not copied whole (f32, N = 4095: 46.7,
/// 48.1 us). us with all rows shared from the start, and with 1, 2, 3 or more rounds left to late blocks
/// (f16, H200):
///
/// | M      | N     | blocks per multiprocessor | rounds | 0     | 1     | 2    | more           |
/// |--------|-------|---------------------------|--------|-------|-------|------|----------------|
/// | 4096   | 4096  | 4                         | 3      | 22.3  | 24.7  | 25.6 | 3: 25.7        |
/// | 4096   | 5120  | 3                         | 5      | 27.1  | 27.0  |      |                |
/// | 4096   | 6144  | 2                         | 7      | 31.3  | 31.1  |      |                |
/// | 4096   | 7168  | 2                         | 7      | 36.2  | 34.7  |      |                |
/// | 4096   | 8192  | 3                         | 10     | 40.1  | 38.4  | 39.1 | 3: 40.0        |
/// | 4096   | 15872 | 2                         | 15     | 72.4  | 70.4  | 70.3 |                |
/// | 65536  | 1024  | 16                        | 15     | 75.2  | 71.3  | 71.3 | 4: 71.3        |
/// | 131072 | 768   | 16                        | 31     | 114.9 | 111.9 |      | 6: 105.2       |
/// | 65536  | 8192  | 3                         | 165    | 560.9 |       |      | 30: 550.1      |
fn late(device: DeviceInfo, work: Work, team: Team, ring: Ring, grid: u32) -> Late {
    let tiles = work.rows.div_ceil(ring.rows);
    let rounds = tiles / grid as usize;
    // With room for one more, late blocks would not be late (f16, N = 13312, when one block of 224 threads
    // was planned where two have room: 63.4, 88.6 us).
    let room = (device.multiprocessor_shared_memory / (ring.shared_memory + STATIC))
        .min(ring_threads(work, team) / team.threads);
    if rounds < 7 || room > ring.blocks || !work.aligned {
        return Late::NONE;
    }
    // (f32, N = 12288, one block per multiprocessor, 31 rounds: 107.8, 107.2, 105.8, 106.1 with 0 to 3.
    // It loses in one place: f32, M = 131072, N = 768, 62 rounds: 215.1, 218.7 with 0, 12.)
    let few = if ring.blocks == 1 { rounds / 12 } else { rounds / 5 };
    let late = if rounds < 24 { 1 } else { few };
    let early = grid as usize * (rounds - late);
    Late { first_row: early * ring.rows, blocks: (tiles - early).min(4 * grid as usize) as u32 }
}

/// Most blocks per multiprocessor of a kernel with a ring, and most tiles that the ring holds.
///
/// Forward: as many as [`ring_threads`] has registers for, but not five of three warps where there are
/// no late ones (us with 4 and 5, f16: N = 3072: 17.6, 18.1; 4608: 25.3, 25.8; 5120: 26.9, 27.5; f32:
/// 1280: 15.3, 15.7; 2560: 26.6, 26.3). Two tiles do, since a tile's slot is free as soon as it is in
/// registers. (us by blocks per multiprocessor, f16, M = 4096, H200: N = 1024: 10.1 with 8, 9.7 with 16;
/// 4096: 24.2, 22.9, 22.0 with 2, 3, 4; 6656: 34.4, 32.5 with 3, 4; 8192: 41.4, 39.3 with 2, 3; 9216: 45.7,
/// 43.2 with 2, 3; 12800: 62.8, 58.2 with 1, 2.)
///
/// Backward: 256 threads or more, since each block's dw and db are written and read once more; more
/// blocks where each still has many rows. (us: N = 1024: 20.9, 16.2, 18.8 with 1, 2, 3 blocks; 1536:
/// 22.6, 20.4, 25.0; 4096: 37.0, 40.9 with 1, 2. M = 131072, N = 768: 226, 178, 166, 169 with 2, 3,
/// 4, 5.) A third tile gains (8192: 79 us with 2, 67 with 3), a fourth loses (65.7, 63.3 with 3).
fn ring_blocks(device: DeviceInfo, work: Work, kernel: Kernel, team: Team) -> (u32, u32) {
    let threads = team.threads;
    if kernel == Kernel::Forward {
        let rounds = work.rows / (5 * device.multiprocessors as usize * tile_rows(kernel, team));
        let three_warps = threads == 96 && rounds < 7;
        let most = if three_warps { 4 } else { ring_threads(work, team) / threads };
        return (most.clamp(1, 16), 2);
    }
    let many = 448 / threads;
    let rows = work.rows as u64;
    let long = rows >= 64 * device.multiprocessors as u64 * many as u64;
    (256u32.div_ceil(threads).max(if long { many } else { 1 }).min(8), 3)
}

/// Whether there are kernels with a ring for work of this kind, if it is plain. (us without and with
/// one, rows that are not whole packs, M = 4096, H200: f16, N = 8191: forward 155, 57, backward 189,
/// 101; f32, N = 1023: 30.1, 20.2 and 51.0, 41.9.)
fn has_ring(work: Work) -> bool {
    let Storage { x, params } = work.storage;
    x != DataType::F64 && (work.aligned || x == params)
}

/// What a block takes beside its dynamic shared memory: the collectives' scratch, and what CUDA
/// reserves.
const STATIC: u32 = 1024 + 1024;

/// Threads of a multiprocessor for which forward's kernels with a ring leave registers: fewer where packs
/// of 16 bits are shifted, or have f32 weights beside them, which takes 140 to 168, and 128 with three packs a
/// thread. (us of rows that are not whole packs with 512 and 384, f16, M = 4096, H200: V = 4: N = 2047: 28.1,
/// 23.4; 4095: 44.8, 36.7; V = 1, which has the registers: 511: 11.3 with the kernels before, 13.5.)
fn ring_threads(work: Work, team: Team) -> u32 {
    let Storage { x, params } = work.storage;
    let many = team.packs > 3 && x.size() == 2 && (!work.aligned || params.size() == 4);
    if many { 384 } else { 512 }
}

#[derive(Clone, Copy)]
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
    let rows = tile_rows(kernel, team);
    // Fewer tiles than multiprocessors would leave some idle that single rows keep busy.
    let few = work.rows < rows * device.multiprocessors as usize;
    let single = match options.tile {
        Tile::Auto => options.mode == Mode::Seed || few,
        Tile::One => true,
        Tile::Several => false,
    };
    let Storage { x, params } = work.storage;
    // Rows of one pack to a lane that are not whole packs. (us without and with a ring, forward, f16, M =
    // 4096, H200: N = 127: 8.6, 9.5; 255: 9.0, 9.7; 511, of two warps: 12.0, 11.3; 767, of four packs to a
    // lane: 16.5, 16.0; 1023: 17.9, 16.5.)
    let one = team.threads == 32 && team.packs == 1;
    let short = kernel == Kernel::Forward && !work.aligned && x.size() == 2 && one;
    if !device.ring || !work.plain || single || short || !has_ring(work) {
        return None;
    }
    let row = (work.columns * x.size()) as u32;
    let pitch = RingLayout::pitch(work.aligned, row);
    let vector = RingLayout::vector_bytes(row, params.size() / x.size());
    let layout = match kernel {
        Kernel::Forward => RingLayout::new(1, 2, false, rows, pitch, vector),
        _ => {
            let without = work.aligned && leaves_w_out(kernel, x, team.packs);
            RingLayout::new(2, if without { 0 } else { 1 }, true, rows, pitch, vector)
        }
    };
    let (most, max_depth) = ring_blocks(device, work, kernel, team);
    let fitting = |blocks: u32| {
        let share = (device.multiprocessor_shared_memory / blocks)
            .saturating_sub(STATIC)
            .min(device.block_shared_memory.saturating_sub(1024));
        let depth = (share.saturating_sub(layout.slots) / layout.slot_bytes).min(max_depth);
        let shared_memory = layout.slots + depth * layout.slot_bytes;
        Ring { rows, depth, shared_memory, blocks }
    };
    let most_blocks = |depth| (1..=most).rev().map(fitting).find(|ring| ring.depth >= depth);
    if kernel != Kernel::Forward {
        return most_blocks(2);
    }
    // Forward holds a tile in registers, and can do with one in shared memory: where two do not fit (f32,
    // N = 14848, without a ring and with such a one: 150.8, 128.7 us; 15872: 159.0, 137.4), and for long
    // rows, if that makes room for one block more (f16, N = 9728: 46.6, 45.3; 10240: 48.5, 47.1; 14336:
    // 66.9, 65.8; 15872: 74.0, 72.2; f32, 5120: 46.8, 46.3; 8192: 76.2, 74.2; but f16, 7168: 34.6, 35.0).
    let long = row >= 19 << 10;
    match most_blocks(2) {
        Some(ring) if long && ring.blocks < most => {
            let more = fitting(ring.blocks + 1);
            Some(if more.depth == 1 { more } else { ring })
        }
        None => most_blocks(1),
        ring => ring,
    }
}
