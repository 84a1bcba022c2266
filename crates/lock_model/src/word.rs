//! The lock's words, as atomics of loom.

use std::array;
use std::cell::Cell;
use std::marker::PhantomData;

use loom::sync::atomic::{AtomicU32, Ordering};

use crate::lock::LockWord;
use crate::variant::Variant;

/// Groups that there are words for.
pub const GROUPS: usize = 2;

const WORDS: usize = 2 * GROUPS;

/// Stands for the words in global memory. An atomic of loom is larger than a word and lives for one
/// execution, so each word here holds the number of its atomic, and is never written.
static NUMBERS: [u32; WORDS] = [0, 1, 2, 3];

loom::lazy_static! {
    /// The words themselves: zero before each execution.
    static ref ATOMICS: [AtomicU32; WORDS] = array::from_fn(|_| AtomicU32::new(0));
    /// See [`take_turn`].
    static ref TURNS: [AtomicU32; WORDS] = array::from_fn(|_| AtomicU32::new(0));
}

loom::thread_local! {
    /// What [`Variant::FLAG_FIRST`] puts off: the word and its value.
    static LATE: Cell<Option<(usize, u32)>> = Cell::new(None);
}

/// What `with_lock` gets for the address of the words.
pub fn locks() -> *mut u32 {
    NUMBERS.as_ptr().cast_mut()
}

/// Comes before each load and each relaxed store of a word.
///
/// To find the orders that it has not yet gone through, loom looks at the last access before a store,
/// be it a load; an earlier load, of another thread, it then overlooks, and with it some orders
/// (issues 166 and 392 of loom). Read-modify-writes it does not overlook. So each access has one
/// before it, of an atomic that nothing else touches, and loom goes through all orders of those. It
/// is relaxed, and makes nothing happen before anything.
fn take_turn(word: usize) {
    TURNS[word].fetch_add(1, Ordering::Relaxed);
}

/// A relaxed store, in one step with its turn.
fn store_in_turn(word: usize, value: u32) {
    take_turn(word);
    loom::stop_exploring();
    ATOMICS[word].store(value, Ordering::Relaxed);
    loom::explore();
}

/// What a lock and its flag hold. For after the launch: it orders nothing.
pub fn held_and_used(groups: usize, group: usize) -> (u32, u32) {
    let load = |word: usize| ATOMICS[word].load(Ordering::Relaxed);
    (load(group), load(groups + group))
}

/// One of the lock's words.
pub struct Word<V> {
    number: usize,
    variant: PhantomData<V>,
}

impl<V> Clone for Word<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Word<V> {}

impl<V> Word<V> {
    fn atomic(self) -> &'static AtomicU32 {
        &ATOMICS[self.number]
    }
}

impl<V: Variant> LockWord for Word<V> {
    unsafe fn at(ptr: *mut u32) -> Self {
        // SAFETY: it is one of NUMBERS, by the promise of `with_lock`; nobody writes those.
        let number = unsafe { *ptr };
        Word { number: number as usize, variant: PhantomData }
    }

    fn compare_exchange_acquire(self, current: u32, new: u32) -> u32 {
        if V::ATOMIC {
            let tried = self.atomic().compare_exchange(current, new, V::ACQUIRE, Ordering::Relaxed);
            return match tried {
                Ok(old) | Err(old) => old,
            };
        }
        let old = self.atomic().load(V::ACQUIRE);
        if old == current {
            self.atomic().store(new, Ordering::Relaxed);
        }
        old
    }

    fn store_release(self, value: u32) {
        self.atomic().store(value, V::RELEASE);
        if let Some((late, value)) = LATE.with(Cell::take) {
            store_in_turn(late, value);
        }
    }

    fn load_relaxed(self) -> u32 {
        take_turn(self.number);
        self.atomic().load(Ordering::Relaxed)
    }

    fn store_relaxed(self, value: u32) {
        if V::FLAG_FIRST {
            store_in_turn(self.number, value);
        } else {
            LATE.with(|late| late.set(Some((self.number, value))));
        }
    }

    fn pause(n: u32) {
        if n > V::TRIES {
            loom::skip_branch();
        }
        // Tells loom that this thread gets no further before another has run: it would else follow
        // executions in which the thread spins for ever.
        if n > 0 {
            loom::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::variant::Right;

    /// What [`take_turn`] is for: without it, loom ends after an execution in which 0 is read.
    #[test]
    fn no_order_is_overlooked() {
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let results = seen.clone();
        loom::model(move || {
            let word = Word::<Right> { number: 0, variant: PhantomData };
            let other = loom::thread::spawn(move || {
                word.load_relaxed();
                word.store_relaxed(1);
            });
            let value = word.load_relaxed();
            other.join().expect("a panic ends the model");
            results.lock().expect("nobody panics with it").insert(value);
        });
        let seen = seen.lock().expect("nobody panics with it");
        assert_eq!(*seen, BTreeSet::from([0, 1]));
    }
}
