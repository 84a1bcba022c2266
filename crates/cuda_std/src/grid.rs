//! Order between launches (sm_90).
//!
//! PTX ISA, "griddepcontrol". A launch with the attribute "programmatic stream serialization" may
//! start while the one before it on the stream is still running.

use core::arch::asm;

/// Waits until the launch before this one has ended and its writes are visible. Returns at once in
/// a launch without the attribute.
#[inline(always)]
pub fn wait_for_previous() {
    // SAFETY: a wait has no preconditions. No `nomem`: no access may move before it.
    unsafe { asm!("griddepcontrol.wait;", options(nostack)) }
}

/// Lets the launch after this one start as soon as every block has said so or ended.
#[inline(always)]
pub fn let_next_start() {
    // SAFETY: a hint to the scheduler; what the next launch may see is its own `wait`'s affair.
    unsafe { asm!("griddepcontrol.launch_dependents;", options(nostack)) }
}
