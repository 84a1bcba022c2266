//! The thread, its block, the grid, and the block's barrier.
//!
//! PTX ISA, "Special Registers" and "Parallel Synchronization and Communication Instructions".

use core::arch::asm;

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.x"]
    fn tid_x() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.x"]
    fn ntid_x() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.x"]
    fn ctaid_x() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.x"]
    fn nctaid_x() -> i32;
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.all"]
    fn barrier_all(id: i32);
}

/// Index of this thread in its block.
#[inline(always)]
pub fn thread_idx_x() -> u32 {
    // SAFETY: reads a special register; no preconditions.
    unsafe { tid_x() as u32 }
}

/// Threads in a block.
#[inline(always)]
pub fn block_dim_x() -> u32 {
    // SAFETY: reads a special register; no preconditions.
    unsafe { ntid_x() as u32 }
}

/// Index of this block in the grid.
#[inline(always)]
pub fn block_idx_x() -> u32 {
    // SAFETY: reads a special register; no preconditions.
    unsafe { ctaid_x() as u32 }
}

/// Blocks in the grid.
#[inline(always)]
pub fn grid_dim_x() -> u32 {
    // SAFETY: reads a special register; no preconditions.
    unsafe { nctaid_x() as u32 }
}

/// Waits until every thread of the block is here, and makes their earlier writes visible to each
/// other (`bar.sync 0`).
///
/// # Safety
///
/// Every thread of the block must reach this very call, or none.
#[inline(always)]
pub unsafe fn sync_threads() {
    // SAFETY: the caller's promise.
    unsafe { barrier_all(0) }
}

/// `value`, unknown to the compiler: what is derived from the result inside a loop is computed
/// there, and not hoisted out of it to occupy a register each for the loop's whole length.
#[inline(always)]
pub fn opaque(mut value: usize) -> usize {
    // SAFETY: no instruction at all.
    unsafe { asm!("// {}", inout(reg64) value, options(nomem, nostack)) }
    value
}

/// Sixteen bytes, unknown to the compiler: what it has made of them is not kept, but made anew of the
/// result.
#[inline(always)]
pub fn opaque_words([mut a, mut b, mut c, mut d]: [u32; 4]) -> [u32; 4] {
    // SAFETY: no instruction at all.
    unsafe {
        asm!("// {} {} {} {}", inout(reg32) a, inout(reg32) b, inout(reg32) c, inout(reg32) d,
            options(pure, nomem, nostack));
    }
    [a, b, c, d]
}
