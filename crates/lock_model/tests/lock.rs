//! The lock is right in every order of its threads, and each broken one is found out.

use std::time::Instant;

use lock_model::{
    LateFlag, Launch, NoBarrierAfterAcquire, NoBarrierBeforeRelease, RelaxedAcquire,
    RelaxedRelease, Right, RightForAWhile, SplitAcquire, Variant,
};

/// What the blocks of a group do: the smallest launch in which each part of the lock matters.
const PAIR: Launch = Launch { blocks: 2, threads: 2, groups: 1 };

fn holds<V: Variant>(launch: Launch) {
    let start = Instant::now();
    match launch.explore::<V>() {
        Ok(executions) => {
            println!("{launch:?}: right in {executions} executions, {:.1?}", start.elapsed());
        }
        Err(fault) => panic!("{fault}"),
    }
}

/// `says` tells the fault that is meant from a fault of the model.
fn caught<V: Variant>(says: &str) {
    match PAIR.explore::<V>() {
        Ok(executions) => panic!("not caught in {executions} executions"),
        Err(fault) => {
            println!("caught in {fault}");
            assert!(fault.message.contains(says), "{fault}");
        }
    }
}

#[test]
fn two_blocks_of_two_threads() {
    holds::<Right>(PAIR);
}

#[test]
fn two_blocks_with_a_group_each() {
    holds::<Right>(Launch { groups: 2, ..PAIR });
}

/// The third holder sees what the first has stored, though it takes the lock from the second. Not
/// every order: see `RightForAWhile`.
#[test]
fn three_blocks_of_one_thread() {
    holds::<RightForAWhile>(Launch { blocks: 3, threads: 1, groups: 1 });
}

#[test]
fn no_barrier_before_the_release() {
    caught::<NoBarrierBeforeRelease>("Causality violation");
}

#[test]
fn no_barrier_after_the_acquire() {
    caught::<NoBarrierAfterAcquire>("Causality violation");
}

#[test]
fn a_relaxed_release() {
    caught::<RelaxedRelease>("Causality violation");
}

#[test]
fn a_relaxed_acquire() {
    caught::<RelaxedAcquire>("Causality violation");
}

#[test]
fn the_flag_after_the_release() {
    caught::<LateFlag>("sum of thread");
}

#[test]
fn an_acquire_of_two_accesses() {
    caught::<SplitAcquire>("Causality violation");
}
