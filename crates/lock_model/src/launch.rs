//! A launch whose blocks meet under the lock, in every order there is.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use loom::cell::UnsafeCell;

use crate::block::Thread;
use crate::lock::with_lock;
use crate::variant::Variant;
use crate::word::{self, GROUPS};

/// What lies in the sums before a block has stored its own: no sum is to hold any of it.
const UNWRITTEN: u32 = 1 << 30;

/// A launch, of at most [`loom::MAX_THREADS`] threads. Block b has group b % `groups`, and adds to its
/// sums.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Blocks.
    pub blocks: usize,
    /// Threads of a block.
    pub threads: usize,
    /// Groups, at most [`GROUPS`] and no more than blocks.
    pub groups: usize,
}

/// What is wrong with a lock.
#[derive(Debug)]
pub struct Fault {
    /// Executions up to the one in which it showed.
    pub executions: usize,
    /// What loom, or a check of the results, says of it.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "execution {}: {}", self.executions, self.message.trim_end())
    }
}

/// A row of partial sums, one for each thread of a block.
type Sums = Vec<UnsafeCell<u32>>;

impl Launch {
    /// Runs the launch in every order that loom finds; gives how many there are.
    pub fn explore<V: Variant>(self) -> Result<usize, Fault> {
        assert!(self.groups <= GROUPS && self.groups <= self.blocks, "{self:?}");
        let mut model = loom::model::Builder::new();
        // All orders: the environment can set bounds, which would go unnoticed here.
        model.preemption_bound = None;
        model.max_permutations = None;
        model.max_duration = None;
        model.checkpoint_file = None;

        let executions = Arc::new(AtomicUsize::new(0));
        let counter = executions.clone();
        let explored = quietly(|| {
            model.check(move || {
                counter.fetch_add(1, Ordering::Relaxed);
                self.run::<V>();
            });
        });
        let executions = executions.load(Ordering::Relaxed);
        match explored {
            Ok(()) => Ok(executions),
            Err(panic) => Err(Fault { executions, message: message(&*panic) }),
        }
    }

    /// One execution.
    fn run<V: Variant>(self) {
        let sums = || (0..self.threads).map(|_| UnsafeCell::new(UNWRITTEN)).collect();
        // Not loom's Arc: it would order what the lock has to order.
        let groups: Rc<Vec<Sums>> = Rc::new((0..self.groups).map(|_| sums()).collect());
        // Made here, so that no thread is the first to come to them.
        for group in 0..self.groups {
            assert_eq!(word::held_and_used(self.groups, group), (0, 0));
        }

        let mut first = None;
        let mut others = Vec::new();
        for block in 0..self.blocks {
            for thread in Thread::<V>::block(self.threads) {
                let groups = groups.clone();
                let body = move || self.body(block, thread, &groups[block % self.groups]);
                match first {
                    // loom's main thread is one of the launch's: one thread less to interleave.
                    None => first = Some(body),
                    Some(_) => others.push(loom::thread::spawn(body)),
                }
            }
        }
        if let Some(body) = first {
            body();
        }
        for other in others {
            other.join().expect("a panic ends the model");
        }
        self.check(&groups);
    }

    /// What one thread runs: the merge of stage 1 of backward.
    fn body<V: Variant>(self, block: usize, mut thread: Thread<V>, sums: &Sums) {
        let group = block % self.groups;
        let work = |thread: &mut Thread<V>, first: bool| {
            let index = thread.index();
            sums[index].with_mut(|sum| {
                // SAFETY: the lock's work. Where it fails, loom panics before this runs, and all its
                // threads take turns on one thread of the system.
                let sum = unsafe { &mut *sum };
                *sum = value(block, index) + if first { 0 } else { *sum };
            });
        };
        // SAFETY: `locks` leads to two words for each of GROUPS groups; group < groups <= GROUPS.
        unsafe { with_lock(&mut thread, word::locks(), self.groups, group, work) };
    }

    /// Every block's values are in its group's sums, once each, and the words are as stage 2 finds
    /// them.
    fn check(self, groups: &[Sums]) {
        for (group, sums) in groups.iter().enumerate() {
            assert_eq!(word::held_and_used(self.groups, group), (0, 1), "words of group {group}");
            for (thread, sum) in sums.iter().enumerate() {
                let blocks = (group..self.blocks).step_by(self.groups);
                let right: u32 = blocks.map(|block| value(block, thread)).sum();
                // SAFETY: all threads that write it have ended.
                let sum = sum.with(|sum| unsafe { *sum });
                assert_eq!(sum, right, "sum of thread {thread} in group {group}");
            }
        }
    }
}

/// What a thread adds: a bit of its own, so that one lost or doubled shows.
fn value(block: usize, thread: usize) -> u32 {
    1 << (4 * block + thread)
}

/// Runs `model`, whose panic is a result and not to be printed. (All of loom's threads run on one
/// thread of the system, this one.)
fn quietly(model: impl FnOnce()) -> Result<(), Box<dyn Any + Send>> {
    thread_local! {
        static QUIET: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                print(panic);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(model));
    QUIET.set(false);
    result
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()))
        .unwrap_or_else(|| "a panic without a message".into())
}
