//! Launch planning: shape, type and device to kernels, grids and blocks. Pure: no CUDA in it.
//!
//! All heuristics of the project are here, each with the measurement that it rests on.

use std::fmt;

use kernels::columns::QUADS_PER_BLOCK;
use kernels::entry::COLUMN_THREADS;
use kernels::feed::RingLayout;

use crate::{Error, Result};

mod instance;

pub use instance::{Feed, Instance, Kernel, instances};

/// A storage type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// 32-bit floating point.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
}

impl DataType {
    /// All of them.
    pub const ALL: [DataType; 3] = [DataType::F32, DataType::F16, DataType::Bf16];

    /// Elements in a pack of 16 bytes.
    pub const fn lanes(self) -> usize {
        match self {
            DataType::F32 => 4,
            DataType::F16 | DataType::Bf16 => 8,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DataType::F32 => "f32",
            DataType::F16 => "f16",
            DataType::Bf16 => "bf16",
        })
    }
}

/// What the planner needs to know of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block may ask for.
    pub block_shared_memory: u32,
    /// Bytes of shared memory of a multiprocessor.
    pub multiprocessor_shared_memory: u32,
    /// Whether the loaded kernels can read through a ring of bulk copies.
    pub ring: bool,
    /// Whether kernels without a ring are compiled for tiles of several rows (the CPU's are).
    pub direct_tiles: bool,
}

impl DeviceInfo {
    /// The CPU, planned as a device of 64 multiprocessors whatever its cores, so that dw and db
    /// have the same bits on every CPU.
    pub const CPU: DeviceInfo = DeviceInfo {
        multiprocessors: 64,
        block_shared_memory: 0,
        multiprocessor_shared_memory: 0,
        ring: false,
        direct_tiles: true,
    };
}

/// How rows are given to blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Blocks stay for many rows; the grid comes from the device.
    #[default]
    Persistent,
    /// One block per row, and groups by the seed's table: the algorithm to the letter, kept to
    /// compare with.
    Seed,
}

/// How many rows a block takes at a time. y and dx do not depend on it; dw and db are summed in
/// another order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tile {
    /// The planner's choice.
    #[default]
    Auto,
    /// One, read from global memory.
    One,
    /// As many as the kernels with a ring take, where rows are whole aligned packs and there is a
    /// ring (or, on the CPU, none is needed); else one.
    Several,
}

/// What a caller may choose. The default is the planner's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How rows are given to blocks.
    pub mode: Mode,
    /// Blocks of the kernels that go over rows, at most; `None` for the planner's choice.
    pub blocks: Option<u32>,
    /// Groups whose blocks share a lock and a row of partial sums; `None` for the planner's choice:
    /// a group of its own for each block, or the seed's table in [`Mode::Seed`].
    pub groups: Option<u32>,
    /// How many rows a block takes at a time.
    pub tile: Tile,
}

/// The longest row: what the kernels keep resident.
pub const MAX_COLUMNS: usize = 16384;

/// M and N of the work, its type, and how its rows lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Rows M.
    pub rows: usize,
    /// Columns N.
    pub columns: usize,
    /// Storage type.
    pub dtype: DataType,
    /// Whether every row of every tensor starts on a 16-byte boundary; see [`aligned`].
    pub aligned: bool,
}

/// One launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The compiled kernel.
    pub instance: Instance,
    /// Blocks; 0 if there is nothing to launch.
    pub grid: u32,
    /// Threads of a block.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared_memory: u32,
    /// Tiles that the ring holds.
    pub depth: u32,
}

/// The two launches of backward, and the scratch between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backward {
    /// Stage 1: dx, and partial sums of dw and db.
    pub rows: Launch,
    /// Stage 2: dw and db.
    pub columns: Launch,
    /// Groups that share a lock: rows of the partial sums.
    pub groups: u32,
    /// Packs in a row of the partial sums.
    pub packs: usize,
}

impl Backward {
    /// f32 elements of the partial sums.
    pub fn sums(&self) -> usize {
        self.groups as usize * 2 * self.packs * self.rows.instance.dtype.lanes()
    }

    /// Words of locks and first-use flags.
    pub fn locks(&self) -> usize {
        2 * self.groups as usize
    }

    /// Groups that stage 1 writes.
    pub fn used_groups(&self) -> u32 {
        self.groups.min(self.rows.grid)
    }
}

/// Whether rows of `columns` elements that start at `pointers` and every `strides` elements after
/// them are whole packs on 16-byte boundaries.
pub fn aligned(pointers: &[usize], strides: &[usize], columns: usize, dtype: DataType) -> bool {
    pointers.iter().all(|pointer| pointer.is_multiple_of(16))
        && strides.iter().all(|stride| stride.is_multiple_of(dtype.lanes()))
        && columns.is_multiple_of(dtype.lanes())
}

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
        let one_each = if kernel == Kernel::Forward { 64 } else { 512 };
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

/// Rows of a tile of the ring's kernels, for V packs per thread.
///
/// Several rows share a collective, since its latency and not the loads bounds a short row; a tile
/// of long rows must fit in shared memory.
const fn ring_rows(packs: usize) -> usize {
    match packs {
        1 => 4,
        4 => 2,
        _ => 1,
    }
}

/// Most tiles that a ring holds: a third one was the last that gained (trial kernels, H200).
const MAX_DEPTH: u32 = 3;

/// The largest grid that CUDA takes.
const MAX_GRID: usize = (1 << 31) - 1;

/// The seed's number of groups.
const fn seed_groups(columns: usize) -> u32 {
    match columns {
        0..=1024 => 256,
        1025..=4096 => 128,
        4097..=8192 => 96,
        _ => 64,
    }
}

fn check(work: Work, options: Options) -> Result<()> {
    if work.columns == 0 || work.columns > MAX_COLUMNS {
        return Err(Error::Columns { found: work.columns, most: MAX_COLUMNS });
    }
    match options {
        Options { blocks: Some(0), .. } => Err(Error::ZeroOption { option: "blocks" }),
        Options { groups: Some(0), .. } => Err(Error::ZeroOption { option: "groups" }),
        _ => Ok(()),
    }
}

/// Plans forward.
///
/// # Errors
///
/// [`Error::Columns`] for a row that the kernels do not take, [`Error::ZeroOption`].
pub fn forward(device: DeviceInfo, work: Work, options: Options) -> Result<Launch> {
    check(work, options)?;
    Ok(over_rows(device, work, options, Kernel::Forward))
}

/// Plans backward.
///
/// # Errors
///
/// As [`forward`].
pub fn backward(device: DeviceInfo, work: Work, options: Options) -> Result<Backward> {
    check(work, options)?;
    let rows = over_rows(device, work, options, Kernel::BackwardRows);
    let groups = options.groups.unwrap_or(match options.mode {
        Mode::Persistent => rows.grid.max(1),
        Mode::Seed => seed_groups(work.columns),
    });
    let packs = rows.instance.packs * rows.block as usize;
    let quads = 2 * packs * work.dtype.lanes() / 4;
    let columns = Launch {
        instance: Instance::columns(work.dtype),
        grid: quads.div_ceil(QUADS_PER_BLOCK) as u32,
        block: COLUMN_THREADS as u32,
        shared_memory: 0,
        depth: 0,
    };
    Ok(Backward { rows, columns, groups, packs })
}

/// The launch of a kernel that goes over rows.
fn over_rows(device: DeviceInfo, work: Work, options: Options, kernel: Kernel) -> Launch {
    let team = Team::new(kernel, work.columns, work.dtype);
    let ring = ring(device, work, options, kernel, team);
    let (feed, rows, depth, shared_memory, per_multiprocessor) = match ring {
        Some(Ring { rows, depth, shared_memory, blocks }) => {
            (Feed::Ring, rows, depth, shared_memory, blocks)
        }
        None => {
            // The CPU takes a GPU's tiles, to sum dw and db in its order.
            let several = options.tile == Tile::Several && device.direct_tiles && work.aligned;
            let rows = if several { ring_rows(team.packs) } else { 1 };
            let feed = if work.aligned { Feed::Direct } else { Feed::Any };
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
    let instance = Instance { kernel, dtype: work.dtype, packs: team.packs, rows, feed };
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
    if !device.ring || !work.aligned || single {
        return None;
    }
    let row = (work.columns / work.dtype.lanes() * 16) as u32;
    let layout = match kernel {
        Kernel::Forward => RingLayout::new(1, 2, false, rows, row),
        _ => RingLayout::new(2, 1, true, rows, row),
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

#[cfg(test)]
mod tests;
