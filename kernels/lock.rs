//! The group lock: how blocks that share a row of partial sums take turns.
//!
//! | word                  | 0                          | 1                         |
//! |-----------------------|----------------------------|---------------------------|
//! | `locks[g]`            | group g is free            | one block holds group g   |
//! | `locks[groups + g]`   | its sums are not yet there | its sums are initialised  |
//!
//! The protocol, for one block:
//!
//! 1. thread 0 takes the lock: compare-exchange 0 -> 1, **acquire**;
//! 2. barrier: no thread touches the group before thread 0 has it;
//! 3. every thread reads the flag, and stores its values (flag 0) or adds them (flag 1);
//! 4. barrier: **every** thread's stores are done, and thread 0 has seen that;
//! 5. thread 0 sets the flag, then frees the lock: store 0, **release**.
//!
//! Step 4 is what the seed leaves out: its release may overtake the stores of the block's other
//! warps, and the next holder then reads old sums. The flag needs no ordering of its own, since it
//! is read and written under the lock. The release is a store and never a `swap`: on this target
//! core's swap drops its ordering. One thread spins per block, so no two threads of a warp ever
//! compete, and a holder waits for nobody, so every holder gets to step 5.
//!
//! Words are zero before a launch and zero after it (stage 2 of backward clears them).

/// What [`with_lock`] needs of a block.
pub trait Gate {
    /// One word in global memory, accessed atomically.
    type Word: LockWord;

    /// Thread 0 alone runs `work`.
    fn leader(&mut self, work: impl FnOnce());
    /// No thread passes before all have come; writes before it are seen by the block after it.
    ///
    /// Only for this module: a body's phases need no other barrier than those of the collectives.
    fn barrier(&mut self);
}

/// An atomic 32-bit word, at a scope that spans the blocks of a launch.
pub trait LockWord: Copy {
    /// The word at `ptr`.
    ///
    /// # Safety
    ///
    /// `ptr` must be aligned, valid for the launch, and accessed through this trait only.
    unsafe fn at(ptr: *mut u32) -> Self;
    /// If the word is `current`, makes it `new`, acquiring; gives what it was.
    fn compare_exchange_acquire(self, current: u32, new: u32) -> u32;
    /// Stores `value`, releasing.
    fn store_release(self, value: u32);
    /// Loads without ordering.
    fn load_relaxed(self) -> u32;
    /// Stores without ordering.
    fn store_relaxed(self, value: u32);
    /// Called after the `n`-th failed try in a row; returns at once if `n` is 0.
    fn pause(n: u32);
}

const FREE: u32 = 0;
const HELD: u32 = 1;
const USED: u32 = 1;

/// Runs `work(block, first)` while this block alone holds `group`; `first` says that no block has
/// held it before in this launch, so that the group's sums are to be stored, not added to.
///
/// # Safety
///
/// `locks` must point to 2 * `groups` words, valid for the launch and used by nothing else;
/// `group < groups`.
#[inline(always)]
pub unsafe fn with_lock<G: Gate>(
    block: &mut G,
    locks: *mut u32,
    groups: usize,
    group: usize,
    work: impl FnOnce(&mut G, bool),
) {
    // SAFETY: both words lie in the caller's array.
    let (lock, flag) =
        unsafe { (G::Word::at(locks.add(group)), G::Word::at(locks.add(groups + group))) };
    block.leader(|| acquire(lock));
    block.barrier();
    let first = flag.load_relaxed() != USED;
    work(block, first);
    block.barrier();
    block.leader(|| {
        flag.store_relaxed(USED);
        lock.store_release(FREE);
    });
}

#[inline(always)]
fn acquire<W: LockWord>(lock: W) {
    let mut failures = 0u32;
    loop {
        let taken = lock.compare_exchange_acquire(FREE, HELD) == FREE;
        failures = if taken { 0 } else { failures.saturating_add(1) };
        // Not in a branch of its own: LLVM would rotate the loop, and the PTX would hold two
        // compare-exchanges, where one is easier to check.
        W::pause(failures);
        if taken {
            return;
        }
    }
}
