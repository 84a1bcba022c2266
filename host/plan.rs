//! Launch planning: shape, types and device to kernels, grids and blocks. Pure: no CUDA in it.
//!
//! All heuristics of the project are here, each with the measurement that it rests on.

use std::num::NonZeroUsize;

use kernels::args::Late;
use kernels::columns::QUADS_PER_BLOCK;
use kernels::entry::instance::{packs, team_threads};
use kernels::entry::{COLUMN_THREADS, LIMIT_THREADS, LONG_THREADS};
use kernels::limit::PACKS as LIMIT_PACKS;
use kernels::long::CHUNK_PACKS;

use crate::{Error, Result};

mod options;
mod rows;

pub use kernels::entry::instance::{DataType, Feed, Instance, Kernel, Storage, instances};
pub use options::{Mode, Options, Reduction, Tile, Want};
use rows::over_rows;

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

/// M and N of the work, its types, and how its rows lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Rows M.
    pub rows: usize,
    /// Columns N.
    pub columns: usize,
    /// Storage types.
    pub storage: Storage,
    /// Whether every row of every tensor starts on a 16-byte boundary; see [`aligned`].
    pub aligned: bool,
    /// Whether the work is plain: no residual, and a weight offset of 0 unless w is absent; in
    /// backward dx is asked for, and added to nothing. Kernels that read through a ring know no
    /// other.
    pub plain: bool,
}

/// One launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The compiled kernel.
    pub instance: Instance,
    /// Blocks, at least 1.
    pub grid: u32,
    /// Threads of a block.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared_memory: u32,
    /// Tiles that the ring holds.
    pub depth: u32,
    /// Blocks for which there is no room when the launch begins, and their rows.
    pub late: Late,
}

/// Launches, one after the other; none if there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps([Option<Launch>; 5]);

impl Steps {
    fn new(launches: impl IntoIterator<Item = Launch>) -> Self {
        let mut steps = Steps::default();
        for (step, launch) in steps.0.iter_mut().zip(launches) {
            *step = Some(launch);
        }
        steps
    }

    /// The launches in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Launch> {
        self.0.iter().flatten()
    }
}

/// Forward: one launch, or five for rows that are split, and the scratch between those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The launches.
    pub steps: Steps,
    /// Chunks of a row.
    pub chunks: NonZeroUsize,
    /// Bytes of [`kernels::args::ForwardArgs::parts`].
    pub parts: usize,
}

/// The two stages of backward, and the scratch between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backward {
    /// Stage 1: dx, and partial sums of dw and db. One launch, or up to three for rows that are
    /// split.
    pub rows: Steps,
    /// Stage 2: dw and db; none if they are not asked for.
    pub columns: Option<Launch>,
    /// Storage types.
    pub storage: Storage,
    /// Groups that share a lock: rows of the partial sums.
    pub groups: u32,
    /// Groups that stage 1 writes.
    pub used_groups: u32,
    /// Chunks of a row.
    pub chunks: NonZeroUsize,
    /// Packs in a chunk of a row of the partial sums.
    pub packs: NonZeroUsize,
    /// Bytes of [`kernels::args::BackwardArgs::parts`].
    pub parts: usize,
}

impl Backward {
    /// Bytes of the partial sums.
    pub fn sums(&self) -> usize {
        let lanes = self.storage.x.lanes() * self.storage.x.real().size();
        match self.columns {
            Some(_) => self.groups as usize * self.chunks.get() * 2 * self.packs.get() * lanes,
            None => 0,
        }
    }

    /// Words of locks and first-use flags.
    pub fn locks(&self) -> usize {
        2 * self.groups as usize * self.chunks.get()
    }
}

/// Whether rows of `columns` elements that start at `pointers` and every `strides` elements after
/// them are whole packs on 16-byte boundaries. Null pointers are.
pub fn aligned(pointers: &[usize], strides: &[usize], columns: usize, dtype: DataType) -> bool {
    pointers.iter().all(|pointer| pointer.is_multiple_of(16))
        && strides.iter().all(|stride| stride.is_multiple_of(dtype.lanes()))
        && columns.is_multiple_of(dtype.lanes())
}

/// The longest row that a block holds; longer ones are split. A function of the type alone, so that
/// a row's results never depend on the device.
pub fn longest_held(dtype: DataType) -> usize {
    let most = packs(Kernel::BackwardRows, dtype).last().copied().unwrap_or(1);
    most * team_threads(Kernel::BackwardRows, dtype, most) * dtype.lanes()
}

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

/// Most chunks of a row, so that no grid is too large: a block of stage 2 takes 1/512 of one.
const MAX_CHUNKS: usize = MAX_GRID / 512;

fn check(work: Work, options: Options) -> Result<()> {
    if chunks(work.columns, work.storage.x).get() > MAX_CHUNKS {
        return Err(Error::TooLarge { found: vec![work.rows, work.columns] });
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
/// [`Error::ZeroOption`], [`Error::TooLarge`] for rows of more than 10^10 columns.
pub fn forward(device: DeviceInfo, work: Work, options: Options) -> Result<Forward> {
    check(work, options)?;
    let Work { rows, columns, storage, .. } = work;
    let chunks = chunks(columns, storage.x);
    if rows == 0 || columns == 0 {
        return Ok(Forward { steps: Steps::default(), chunks, parts: 0 });
    }
    if columns <= longest_held(storage.x) {
        let launch = over_rows(device, work, options, Kernel::Forward);
        return Ok(Forward { steps: Steps::new([launch]), chunks, parts: 0 });
    }
    let pieces = rows.saturating_mul(chunks.get());
    let steps = [
        (Kernel::LongSums, pieces),
        (Kernel::LongMean, rows),
        (Kernel::LongSpread, pieces),
        (Kernel::LongStats, rows),
        (Kernel::LongNormalise, pieces),
    ];
    let steps = Steps::new(steps.map(|(kernel, blocks)| long(kernel, storage, blocks)));
    Ok(Forward { steps, chunks, parts: 2 * pieces * part_bytes(storage) })
}

/// Plans backward.
///
/// # Errors
///
/// As [`forward`], and [`Error::Groups`].
pub fn backward(device: DeviceInfo, work: Work, options: Options, want: Want) -> Result<Backward> {
    check(work, options)?;
    let Work { rows, columns, storage, .. } = work;
    let chunks = chunks(columns, storage.x);
    let split = columns > longest_held(storage.x);
    let none = Launch {
        instance: Instance::only(Kernel::BackwardColumns, storage),
        grid: 0,
        block: LONG_THREADS as u32,
        shared_memory: 0,
        depth: 0,
        late: Late::NONE,
    };
    let nothing = rows == 0 || columns == 0 || want == Want { dx: false, dw: false, db: false };
    // The blocks that go over the rows, for each chunk, and the packs that such a block holds.
    let (steps, blocks, packs, parts) = if nothing {
        // Stage 2 still writes dw and db, as zeros.
        let whole = columns.div_ceil(storage.x.lanes());
        (Steps::default(), 0, if split { CHUNK_PACKS * LONG_THREADS } else { whole.max(1) }, 0)
    } else if split {
        let blocks = match options.mode {
            Mode::Seed => rows,
            Mode::Persistent => rows.min(match options.blocks {
                Some(blocks) => blocks as usize,
                None => (device.multiprocessors as usize / chunks).max(1),
            }),
        };
        let blocks = blocks.min(MAX_GRID / chunks).max(1);
        let apply = long(Kernel::LongApply, storage, blocks * chunks.get());
        let dots = long(Kernel::LongDots, storage, rows.saturating_mul(chunks.get()));
        let means = long(Kernel::LongMeans, storage, rows);
        let steps = if want.dx { Steps::new([dots, means, apply]) } else { Steps::new([apply]) };
        let parts = if want.dx { rows * (chunks.get() + 1) * part_bytes(storage) } else { 0 };
        (steps, blocks as u32, CHUNK_PACKS * LONG_THREADS, parts)
    } else {
        let launch = over_rows(device, work, options, Kernel::BackwardRows);
        let packs = launch.instance.packs * launch.block as usize;
        (Steps::new([launch]), launch.grid, packs, 0)
    };
    let summed = columns > 0 && (want.dw || want.db);
    let groups = if summed { groups(columns, options, blocks)? } else { 1 };
    let quads = 2 * packs * storage.x.lanes() / storage.x.real().lanes();
    let columns = Launch {
        grid: (quads.div_ceil(QUADS_PER_BLOCK) * chunks.get()) as u32,
        block: COLUMN_THREADS as u32,
        ..none
    };
    Ok(Backward {
        rows: steps,
        columns: summed.then_some(columns),
        storage,
        groups,
        used_groups: groups.min(blocks),
        chunks,
        packs: NonZeroUsize::new(packs).unwrap_or(NonZeroUsize::MIN),
        parts,
    })
}

/// Plans the copy or the addition of so many packs that speed is compared with ([`crate::limit`]).
pub fn limit(packs: usize, dtype: DataType) -> Launch {
    Launch {
        instance: Instance::only(Kernel::Limit, Storage::of(dtype)),
        grid: packs.div_ceil(LIMIT_PACKS * LIMIT_THREADS).min(MAX_GRID) as u32,
        block: LIMIT_THREADS as u32,
        shared_memory: 0,
        depth: 0,
        late: Late::NONE,
    }
}

/// Groups for so many blocks.
fn groups(columns: usize, options: Options, blocks: u32) -> Result<u32> {
    let own = blocks.max(1);
    match (options.reduction, options.groups) {
        (Reduction::Deterministic, Some(groups)) if groups < own => {
            Err(Error::Groups { found: groups, wanted: own })
        }
        (_, Some(groups)) => Ok(groups),
        (Reduction::Deterministic, None) => Ok(own),
        (Reduction::Auto, None) if options.mode == Mode::Persistent => Ok(own),
        (Reduction::GroupLocks, None) if options.mode == Mode::Persistent => {
            Ok(seed_groups(columns).min(own.div_ceil(2)))
        }
        _ => Ok(seed_groups(columns)),
    }
}

/// Columns of a chunk of a split row: what its block holds.
const fn chunk_columns(dtype: DataType) -> usize {
    CHUNK_PACKS * LONG_THREADS * dtype.lanes()
}

fn chunks(columns: usize, dtype: DataType) -> NonZeroUsize {
    let split = columns > longest_held(dtype);
    let chunks = if split { columns.div_ceil(chunk_columns(dtype)) } else { 1 };
    NonZeroUsize::new(chunks).unwrap_or(NonZeroUsize::MIN)
}

/// Bytes of the four numbers that a chunk leaves for the next step.
fn part_bytes(storage: Storage) -> usize {
    4 * storage.x.real().size()
}

/// A launch of a kernel of split rows.
fn long(kernel: Kernel, storage: Storage, blocks: usize) -> Launch {
    Launch {
        instance: Instance::only(kernel, storage),
        grid: blocks.min(MAX_GRID) as u32,
        block: LONG_THREADS as u32,
        shared_memory: 0,
        depth: 0,
        late: Late::NONE,
    }
}

#[cfg(test)]
mod tests;
