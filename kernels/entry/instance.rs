//! The names of the compiled instances, and which there are.

use std::fmt;
use std::vec::Vec;

/// A storage type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// 64-bit floating point.
    F64,
    /// 32-bit floating point.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
}

impl DataType {
    /// All of them.
    pub const ALL: [DataType; 4] = [DataType::F64, DataType::F32, DataType::F16, DataType::Bf16];

    /// Elements in a pack of 16 bytes.
    pub const fn lanes(self) -> usize {
        16 / self.size()
    }

    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            DataType::F64 => 8,
            DataType::F32 => 4,
            DataType::F16 | DataType::Bf16 => 2,
        }
    }

    /// What is calculated in: f64 for f64, else f32.
    pub const fn real(self) -> DataType {
        match self {
            DataType::F64 => DataType::F64,
            _ => DataType::F32,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DataType::F64 => "f64",
            DataType::F32 => "f32",
            DataType::F16 => "f16",
            DataType::Bf16 => "bf16",
        })
    }
}

/// The storage types of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Storage {
    /// Of x, y, dy, dx, and the residual and its gradient.
    pub x: DataType,
    /// Of w, b, dw and db.
    pub params: DataType,
}

impl Storage {
    /// The pairs that kernels are compiled for: w and b of x's type, or of the type that is
    /// calculated in.
    pub const ALL: [Storage; 6] = {
        use DataType::*;
        [
            Storage { x: F64, params: F64 },
            Storage { x: F32, params: F32 },
            Storage { x: F16, params: F16 },
            Storage { x: F16, params: F32 },
            Storage { x: Bf16, params: Bf16 },
            Storage { x: Bf16, params: F32 },
        ]
    };

    /// All of one type.
    pub const fn of(x: DataType) -> Self {
        Storage { x, params: x }
    }
}

/// `f16`, or `f16w32` with f32 weights.
impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weights = if self.x == self.params { "" } else { "w32" };
        write!(f, "{}{weights}", self.x)
    }
}

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// x to y and the statistics.
    Forward,
    /// Stage 1 of backward.
    BackwardRows,
    /// Stage 2 of backward.
    BackwardColumns,
    /// Forward of split rows, step 1.
    LongSums,
    /// Forward of split rows, step 2.
    LongMean,
    /// Forward of split rows, step 3.
    LongSpread,
    /// Forward of split rows, step 4.
    LongStats,
    /// Forward of split rows, step 5.
    LongNormalise,
    /// Stage 1 of backward of split rows, step 1.
    LongDots,
    /// Stage 1 of backward of split rows, step 2.
    LongMeans,
    /// Stage 1 of backward of split rows, step 3.
    LongApply,
    /// A copy or an addition, which speed is compared with.
    Limit,
}

impl Kernel {
    /// The kernels of split rows.
    pub const LONG: [Kernel; 8] = [
        Kernel::LongSums,
        Kernel::LongMean,
        Kernel::LongSpread,
        Kernel::LongStats,
        Kernel::LongNormalise,
        Kernel::LongDots,
        Kernel::LongMeans,
        Kernel::LongApply,
    ];

    /// The types of which `storage` is all that the kernel depends on.
    fn storage(self, storage: Storage) -> Storage {
        match self {
            Kernel::LongSums | Kernel::LongSpread | Kernel::Limit => Storage::of(storage.x),
            Kernel::LongMean | Kernel::LongStats | Kernel::LongMeans => {
                Storage::of(storage.x.real())
            }
            Kernel::BackwardColumns => Storage::of(storage.params),
            _ => storage,
        }
    }
}

/// How a kernel reads its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feed {
    /// From global memory, whole aligned packs.
    Direct,
    /// From global memory, at any alignment.
    Any,
    /// From global memory, whole aligned packs of plain work, with w and b read before a row.
    Early,
    /// Through a ring of tiles in shared memory, whole aligned packs.
    Ring,
    /// Through a ring of tiles in shared memory, at any alignment.
    Shifted,
}

impl Feed {
    /// Whether it is a ring.
    pub const fn is_ring(self) -> bool {
        matches!(self, Feed::Ring | Feed::Shifted)
    }
}

/// A compiled kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    /// The kernel.
    pub kernel: Kernel,
    /// Storage types.
    pub storage: Storage,
    /// Packs per thread and row (V); 0 where the kernel has no choice of them.
    pub packs: usize,
    /// Rows per tile (R); 0 where the kernel has no choice of them.
    pub rows: usize,
    /// How it reads its rows.
    pub feed: Feed,
}

impl Instance {
    /// A kernel of which there is one for `storage`.
    pub fn only(kernel: Kernel, storage: Storage) -> Self {
        Instance { kernel, storage: kernel.storage(storage), packs: 0, rows: 0, feed: Feed::Any }
    }
}

/// The name of the PTX entry.
impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance { kernel, storage, packs, rows, feed } = self;
        let name = match kernel {
            Kernel::Forward => "forward",
            Kernel::BackwardRows => "backward_rows",
            Kernel::BackwardColumns => "backward_columns",
            Kernel::LongSums => "long_sums",
            Kernel::LongMean => "long_mean",
            Kernel::LongSpread => "long_spread",
            Kernel::LongStats => "long_stats",
            Kernel::LongNormalise => "long_normalise",
            Kernel::LongDots => "long_dots",
            Kernel::LongMeans => "long_means",
            Kernel::LongApply => "long_apply",
            Kernel::Limit => "limit",
        };
        write!(f, "{name}_{storage}")?;
        match (packs, feed) {
            (0, _) => Ok(()),
            (_, Feed::Direct) => write!(f, "_v{packs}"),
            (_, Feed::Any) => write!(f, "_v{packs}_any"),
            (_, Feed::Early) => write!(f, "_v{packs}_early"),
            (_, Feed::Ring) => write!(f, "_v{packs}r{rows}_ring"),
            (_, Feed::Shifted) => write!(f, "_v{packs}r{rows}_shifted"),
        }
    }
}

/// The packs per thread (V) that there are for a kernel that goes over rows of `dtype`, in rising
/// order. With the last, all kernels hold rows of the same length.
pub const fn packs(kernel: Kernel, dtype: DataType) -> &'static [usize] {
    match (kernel, dtype) {
        (_, DataType::F64) => &[1, 4, 8],
        (Kernel::Forward, _) => &[1, 3, 4, 8],
        (_, DataType::F32) => &[1, 2, 4, 8, 16],
        _ => &[1, 2, 3, 4, 8],
    }
}

/// The most threads that share a row of V packs a thread. Forward wants small teams, whose
/// collectives are short; backward needs registers for dw and db. (V = 3 of 16 bits has 12 warps where V =
/// 4 would have 9, which leave three of four schedulers waiting: us, f16, M = 4096, H200: N = 8704: 72.2,
/// 68.4; 9216: 74.9, 71.5; not with more threads: 10240: 77.8, 77.6.)
pub const fn team_threads(kernel: Kernel, dtype: DataType, packs: usize) -> usize {
    match (kernel, packs, packs * dtype.lanes()) {
        (Kernel::Forward, 1, _) => 64,
        (Kernel::Forward, 3 | 4, _) => 128,
        (Kernel::Forward, _, 32) => 512,
        (_, 1, _) => 256,
        _ if matches!(dtype, DataType::F64) => 256,
        (_, _, ..=16) => 512,
        (_, _, 17..=32) => 384,
        _ => 256,
    }
}

/// The rows per tile (R) that there are for a kernel that reads through a ring, for V packs per
/// thread, in rising order.
pub const fn ring_rows(kernel: Kernel, packs: usize) -> &'static [usize] {
    match (kernel, packs) {
        (_, 1) => &[4],
        (Kernel::Forward, 3 | 4) => &[2],
        (_, 2) => &[1, 2],
        _ => &[1],
    }
}

/// Whether the ring of the backward kernel that reads whole packs leaves w out: of f32, whose tiles are so
/// large that w finds no room beside two of them from N = 9.7 K on. V = 8 holds it in registers, V = 16
/// reads it from global memory. (us, M = 4096, H200: N = 12288: 165 and 266 without a ring; 11264: 153, 156
/// with w in the ring; 12544, V = 16: 288 and 403 without a ring. 16-bit types gain nothing: N = 4096:
/// 38.2 and 37.5.)
pub const fn leaves_w_out(kernel: Kernel, dtype: DataType, packs: usize) -> bool {
    matches!((kernel, dtype, packs), (Kernel::BackwardRows, DataType::F32, 8 | 16))
}

/// The feeds that there are; f64 is for exactness, and has one. What is rare, rows of 16 bits beside
/// f32 weights that are not whole packs, does without a ring of its own.
fn feeds(storage: Storage, ring: bool) -> &'static [Feed] {
    let Storage { x, params } = storage;
    match (x, ring) {
        (DataType::F64, _) => &[Feed::Any],
        (_, false) => &[Feed::Direct, Feed::Any],
        _ if x == params => &[Feed::Direct, Feed::Any, Feed::Ring, Feed::Shifted],
        _ => &[Feed::Direct, Feed::Any, Feed::Ring],
    }
}

/// Whether forward has a kernel of a block for each row: for f32 and 16 bits, beside weights of the same
/// type.
pub fn has_early(storage: Storage) -> bool {
    storage.x == storage.params && storage.x != DataType::F64
}

/// Every kernel that a PTX file holds; those that are chosen where there is a ring only if `ring`.
pub fn instances(ring: bool) -> Vec<Instance> {
    let mut all = Vec::new();
    for storage in Storage::ALL {
        for kernel in [Kernel::Forward, Kernel::BackwardRows] {
            for &packs in packs(kernel, storage.x) {
                if ring && kernel == Kernel::Forward && has_early(storage) {
                    all.push(Instance { kernel, storage, packs, rows: 1, feed: Feed::Early });
                }
                for &feed in feeds(storage, ring) {
                    let rows = if feed.is_ring() { ring_rows(kernel, packs) } else { &[1] };
                    for &rows in rows {
                        all.push(Instance { kernel, storage, packs, rows, feed });
                    }
                }
            }
        }
        for kernel in Kernel::LONG.into_iter().chain([Kernel::BackwardColumns, Kernel::Limit]) {
            let only = Instance::only(kernel, storage);
            if only.storage == storage {
                all.push(only);
            }
        }
    }
    all
}
