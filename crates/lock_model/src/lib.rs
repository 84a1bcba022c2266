//! The group lock under loom: `kernels/lock.rs` itself, with the atomics and barriers of a model.
//!
//! loom runs a closure once for every order in which its threads' atomic accesses can take effect,
//! old values of relaxed loads among them, and follows which access happens before which. The sums
//! that the lock guards are loom's `UnsafeCell`s: two accesses that nothing orders are a fault, even
//! where the result is right.
//!
//! What differs between the lock and its broken relatives is in [`Variant`], a constant for each
//! thing; the rest of the code is the same. What this shows, and what it cannot, is in
//! `docs/lock.md`.

mod block;
mod launch;
// The very file that the kernels are built from: not a copy, and not changed for the model.
#[path = "../../../kernels/lock.rs"]
pub mod lock;
mod variant;
mod word;

pub use block::Thread;
pub use launch::{Fault, Launch};
pub use variant::{
    LateFlag, NoBarrierAfterAcquire, NoBarrierBeforeRelease, RelaxedAcquire, RelaxedRelease, Right,
    RightForAWhile, SplitAcquire, Variant,
};
pub use word::{GROUPS, Word};
