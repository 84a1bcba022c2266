//! The right lock, and broken ones that the model must tell from it.

use loom::sync::atomic::Ordering;

/// What the lock's parts are made of. The defaults are right.
pub trait Variant: Copy + 'static {
    /// The order of the compare-exchange where it succeeds.
    const ACQUIRE: Ordering = Ordering::Acquire;
    /// The order of the store that frees the lock.
    const RELEASE: Ordering = Ordering::Release;
    /// Whether the compare-exchange is one access, not a load and then a store.
    const ATOMIC: bool = true;
    /// Whether the flag is stored before the lock is freed, not after it.
    const FLAG_FIRST: bool = true;
    /// Which barriers there are: the one after the acquire, the one before the release.
    const BARRIERS: [bool; 2] = [true, true];
    /// Failed tries in a row after which an execution is only ended, not varied any more.
    const TRIES: u32 = u32::MAX;
}

/// The lock as it is.
#[derive(Clone, Copy)]
pub struct Right;

impl Variant for Right {}

/// The lock as it is, for launches in which two threads can spin: they could pass each other the
/// turn for ever, and no execution would be the last.
#[derive(Clone, Copy)]
pub struct RightForAWhile;

impl Variant for RightForAWhile {
    const TRIES: u32 = 2;
}

/// The seed's fault: thread 0 frees the lock while other threads may still be storing.
#[derive(Clone, Copy)]
pub struct NoBarrierBeforeRelease;

impl Variant for NoBarrierBeforeRelease {
    const BARRIERS: [bool; 2] = [true, false];
}

/// The other threads do not wait until thread 0 has the lock.
#[derive(Clone, Copy)]
pub struct NoBarrierAfterAcquire;

impl Variant for NoBarrierAfterAcquire {
    const BARRIERS: [bool; 2] = [false, true];
}

/// The store that frees the lock orders nothing.
#[derive(Clone, Copy)]
pub struct RelaxedRelease;

impl Variant for RelaxedRelease {
    const RELEASE: Ordering = Ordering::Relaxed;
}

/// The compare-exchange that takes the lock orders nothing.
#[derive(Clone, Copy)]
pub struct RelaxedAcquire;

impl Variant for RelaxedAcquire {
    const ACQUIRE: Ordering = Ordering::Relaxed;
}

/// The flag is stored after the lock is freed: the next block may not see it.
#[derive(Clone, Copy)]
pub struct LateFlag;

impl Variant for LateFlag {
    const FLAG_FIRST: bool = false;
}

/// The lock is found free by a load and taken by a store: two blocks may both take it.
#[derive(Clone, Copy)]
pub struct SplitAcquire;

impl Variant for SplitAcquire {
    const ATOMIC: bool = false;
}
