//! What backward needs between its two stages: partial sums, locks and flags.

use std::num::{NonZeroU32, NonZeroUsize};

use kernels::args::Partials;

use crate::device::buffer::Buffer;
use crate::plan::Backward;
use crate::{Device, Result};

/// Scratch memory, kept from call to call and grown when a larger shape comes.
pub(crate) struct Scratch {
    device: Device,
    sums: Option<Buffer<[f32; 4]>>,
    locks: Option<Buffer<u32>>,
    /// Whether every lock and flag will be 0 when the stream gets to the next launch.
    clean: bool,
}

impl Scratch {
    pub(crate) fn new(device: &Device) -> Self {
        Scratch { device: device.clone(), sums: None, locks: None, clean: true }
    }

    /// The memory for a launch of `plan`, with locks and flags at 0.
    ///
    /// Stage 2 leaves them at 0. Where it was not launched after a stage 1, they are cleared here.
    pub(crate) fn take(&mut self, plan: &Backward) -> Result<Partials> {
        let quads = plan.sums() / 4;
        let sums = match &mut self.sums {
            Some(sums) if sums.len() >= quads => sums,
            // The smaller one is freed first, so that the device need not hold both.
            sums => {
                *sums = None;
                sums.insert(Buffer::new(&self.device, quads)?)
            }
        };
        let locks = match &mut self.locks {
            Some(locks) if locks.len() >= plan.locks() => locks,
            locks => {
                *locks = None;
                locks.insert(Buffer::zeroed(&self.device, plan.locks())?)
            }
        };
        if !self.clean {
            locks.fill_bytes(0)?;
        }
        self.clean = false;
        Ok(Partials {
            sums: sums.as_mut_ptr().cast(),
            locks: locks.as_mut_ptr(),
            groups: NonZeroU32::new(plan.groups).unwrap_or(NonZeroU32::MIN),
            packs: NonZeroUsize::new(plan.packs).unwrap_or(NonZeroUsize::MIN),
        })
    }

    /// Leaves every lock and flag as a launch that was stopped half way might.
    #[cfg(test)]
    pub(crate) fn poison(&mut self) -> Result<()> {
        self.locks.as_mut().map_or(Ok(()), |locks| locks.fill_bytes(1))
    }

    /// Says that both stages are launched: stage 2 clears locks and flags.
    pub(crate) fn launched(&mut self) {
        self.clean = true;
    }
}
