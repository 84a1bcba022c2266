//! What the launches of one call leave for each other: partial sums, locks and flags.

use std::num::NonZeroU32;

use kernels::Pack;
use kernels::args::Partials;

use crate::device::buffer::Buffer;
use crate::plan::Backward;
use crate::{Device, Result};

/// Scratch memory, kept from call to call and grown when a larger shape comes.
pub(crate) struct Scratch {
    device: Device,
    sums: Option<Buffer<Pack>>,
    parts: Option<Buffer<Pack>>,
    locks: Option<Buffer<u32>>,
    /// Whether every lock and flag will be 0 when the stream gets to the next launch.
    clean: bool,
}

impl Scratch {
    pub(crate) fn new(device: &Device) -> Self {
        Scratch { device: device.clone(), sums: None, parts: None, locks: None, clean: true }
    }

    /// Memory of so many bytes for the launches over split rows.
    pub(crate) fn parts(&mut self, bytes: usize) -> Result<*mut Pack> {
        Ok(at_least(&mut self.parts, bytes, &self.device)?.as_mut_ptr())
    }

    /// The memory for a launch of `plan`, with locks and flags at 0.
    ///
    /// Stage 2 leaves them at 0. Where it was not launched after a stage 1, they are cleared here.
    pub(crate) fn partials(&mut self, plan: &Backward) -> Result<Partials> {
        let sums = at_least(&mut self.sums, plan.sums(), &self.device)?;
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
            packs: plan.packs,
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

/// Memory of at least so many bytes.
fn at_least<'a>(
    memory: &'a mut Option<Buffer<Pack>>,
    bytes: usize,
    device: &Device,
) -> Result<&'a mut Buffer<Pack>> {
    let packs = bytes.div_ceil(size_of::<Pack>());
    // A smaller one is freed first, so that the device need not hold both.
    let enough = match memory.take().filter(|memory| memory.len() >= packs) {
        Some(memory) => memory,
        None => Buffer::new(device, packs)?,
    };
    Ok(memory.insert(enough))
}
