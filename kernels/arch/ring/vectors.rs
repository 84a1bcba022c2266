//! The vectors, w and b: beside the slots, or in global memory.

use core::ffi::c_void;

use cuda_std::{bulk, shared, thread};

use super::{Ring, dynamic};
use crate::arch::GpuBlock;
use crate::element::Lanes;
use crate::feed::{RingLayout, ones, params};
use crate::lock::Gate;
use crate::{Element, Pack, Params, memory};

impl<E, P, const T: usize, const C: usize, const WHOLE: bool, const VECTORS: bool>
    Ring<E, P, T, C, WHOLE, VECTORS>
where
    E: Element,
    P: Params<E>,
{
    /// Where vector `i` lies, and its size.
    #[inline(always)]
    fn vector_at(&self, i: usize) -> (u32, u32) {
        let bytes = RingLayout::vector_bytes(self.row_bytes, P::PACKS);
        (self.vectors + i as u32 * bytes, bytes)
    }

    /// Bytes of a vector that come by a copy: none of an absent one, or of one that does not start on
    /// a 16-byte boundary; else all but a last pack that is not whole.
    #[inline(always)]
    fn copied(&self, vector: *const c_void) -> u32 {
        if vector.is_null() || !WHOLE && vector.addr() % 16 != 0 {
            return 0;
        }
        self.extent.columns as u32 * size_of::<P>() as u32 / 16 * 16
    }

    /// The threads fill in what does not come by copies: with 1 an absent weight, with 0 an absent bias.
    #[inline(always)]
    pub(super) fn fill(&self, vectors: [*const c_void; C]) {
        for i in 0..C {
            if WHOLE && !vectors[i].is_null() {
                continue;
            }
            let lanes = if i == 0 { ones::<P>() } else { P::Lanes::ZERO };
            let (vector, bytes) = self.vector_at(i);
            let mut at = self.copied(vectors[i]) + 16 * thread::thread_idx_x();
            while at < bytes {
                let mut value = P::pack(lanes);
                if !WHOLE && !vectors[i].is_null() {
                    let (vector, columns) = (vectors[i].cast::<P>(), self.extent.columns);
                    // SAFETY: the vector is readable, `open`'s caller said.
                    value = unsafe { memory::gather(false, vector, columns, at as usize / 16) };
                }
                // SAFETY: within the vector; nobody uses it before the barrier.
                unsafe { shared::store(vector + at, value.0) };
                at += 16 * thread::block_dim_x();
            }
        }
    }

    /// The first thread asks for what comes by copies.
    #[inline(always)]
    pub(super) fn ask_vectors(&self, block: &mut GpuBlock, vectors: [*const c_void; C]) {
        block.leader(|| {
            let copied = vectors.map(|vector| self.copied(vector));
            // SAFETY: as in `ask_share`.
            unsafe {
                bulk::arrive_expect(dynamic(), copied.iter().sum());
                for i in 0..C {
                    if copied[i] != 0 {
                        bulk::copy(self.vector_at(i).0, vectors[i].cast(), copied[i], dynamic());
                    }
                }
            }
        });
    }

    /// Waits for what comes by copies.
    #[inline(always)]
    pub(super) fn wait_for_vectors(&self) {
        if VECTORS {
            // SAFETY: initialised by `open`, which has asked for them.
            unsafe { bulk::wait(dynamic(), 0) };
        }
    }

    /// The part of vector `vector` that belongs to pack `pack`.
    #[inline(always)]
    pub(super) fn vector_pack(&self, vector: usize, pack: usize) -> E::Lanes {
        if !VECTORS {
            let (global, columns) = (self.global[vector], self.extent.columns);
            if vector == 0 && global.is_null() {
                return ones::<E>();
            }
            // SAFETY: `open`'s caller said that the vectors are readable.
            return unsafe { params::<E, P>(WHOLE, global, columns, pack) };
        }
        let (vector, bytes) = self.vector_at(vector);
        let mut packs = [Pack::default(); 2];
        for i in 0..P::PACKS {
            let at = 16 * (pack * P::PACKS + i) as u32;
            // SAFETY: the vectors have been waited for.
            packs[i] = Pack(unsafe { shared::load_unless(at >= bytes, vector + at) });
        }
        P::widen(packs)
    }
}
