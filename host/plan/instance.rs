//! The compiled kernels, by name.

use std::fmt;

use super::{DataType, ring_rows};

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// x to y and the statistics.
    Forward,
    /// Stage 1 of backward.
    BackwardRows,
    /// Stage 2 of backward.
    BackwardColumns,
}

/// How a kernel reads its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feed {
    /// From global memory, whole aligned packs.
    Direct,
    /// From global memory, at any alignment.
    Any,
    /// Through a ring of tiles in shared memory.
    Ring,
}

/// A compiled kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    /// The kernel.
    pub kernel: Kernel,
    /// Storage type.
    pub dtype: DataType,
    /// Packs per thread and row (V); 0 for stage 2 of backward.
    pub packs: usize,
    /// Rows per tile (R); 0 for stage 2 of backward.
    pub rows: usize,
    /// How it reads its rows.
    pub feed: Feed,
}

impl Instance {
    /// Stage 2 of backward.
    pub(super) fn columns(dtype: DataType) -> Self {
        Instance { kernel: Kernel::BackwardColumns, dtype, packs: 0, rows: 0, feed: Feed::Direct }
    }
}

/// The name of the PTX entry.
impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance { dtype, packs, rows, .. } = self;
        let kernel = match self.kernel {
            Kernel::Forward => "forward",
            Kernel::BackwardRows => "backward_rows",
            Kernel::BackwardColumns => return write!(f, "backward_columns_{dtype}"),
        };
        match self.feed {
            Feed::Direct => write!(f, "{kernel}_{dtype}_v{packs}"),
            Feed::Any => write!(f, "{kernel}_{dtype}_v{packs}_any"),
            Feed::Ring => write!(f, "{kernel}_{dtype}_v{packs}r{rows}_ring"),
        }
    }
}

/// Every kernel that a PTX file holds; those that read through a ring only if `ring`.
pub fn instances(ring: bool) -> impl Iterator<Item = Instance> {
    DataType::ALL.into_iter().flat_map(move |dtype| {
        let packs: &[usize] = match dtype {
            DataType::F32 => &[1, 4, 8, 16],
            DataType::F16 | DataType::Bf16 => &[1, 4, 8],
        };
        let over_rows = packs.iter().flat_map(move |&packs| {
            [Kernel::Forward, Kernel::BackwardRows].into_iter().flat_map(move |kernel| {
                [(Feed::Direct, 1), (Feed::Any, 1), (Feed::Ring, ring_rows(packs))]
                    .into_iter()
                    .filter(move |(feed, _)| ring || *feed != Feed::Ring)
                    .map(move |(feed, rows)| Instance { kernel, dtype, packs, rows, feed })
            })
        });
        over_rows.chain([Instance::columns(dtype)])
    })
}
