//! The CPU as a device: the kernels' own bodies, blocks spread over OS threads.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kernels::entry::cpu::{Args, At, run_block};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::Result;
use crate::plan::Launch;

pub(crate) struct Cpu {
    /// `None` if the system would not give it threads: blocks then run one after another.
    pool: Option<ThreadPool>,
    number: u32,
}

/// Arguments hold raw pointers; the launcher promises that threads may use them.
struct Shared<'a, A>(&'a A);

// SAFETY: kernels share their arguments between blocks by design: what blocks write is disjoint or
// under a lock (the promises of `forward::rows` and its like, which the launcher makes).
unsafe impl<A> Sync for Shared<'_, A> {}

impl<A> Shared<'_, A> {
    fn get(&self) -> &A {
        self.0
    }
}

impl Cpu {
    pub(crate) fn new(threads: usize) -> Cpu {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = |i| format!("ferronorm-{i}");
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build().ok();
        Cpu { pool, number: NUMBER.fetch_add(1, Ordering::Relaxed) }
    }

    fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, ThreadPool::current_num_threads)
    }

    /// Runs `block` for every block of the launch.
    fn run(&self, launch: &Launch, block: impl Fn(At) + Sync) {
        let (grid, threads) = (launch.grid as usize, launch.block as usize);
        let block = |index| block(At { index, grid, threads });
        match &self.pool {
            // Each thread takes the next blocks that none has taken: some at a time, since a block
            // prefetches rows for the one after it.
            Some(pool) => {
                let share = (grid / (16 * self.threads())).max(1);
                let next = AtomicUsize::new(0);
                let work = || {
                    loop {
                        let first = next.fetch_add(share, Ordering::Relaxed);
                        if first >= grid {
                            break;
                        }
                        (first..grid.min(first + share)).for_each(block);
                    }
                };
                pool.scope(|scope| {
                    for _ in 0..self.threads().min(grid.div_ceil(share)) {
                        scope.spawn(|_| work());
                    }
                });
            }
            None => (0..grid).for_each(block),
        }
    }

    /// Runs a launch.
    ///
    /// # Safety
    ///
    /// As for the kernel.
    pub(crate) unsafe fn launch(&self, launch: &Launch, args: Args<'_>) {
        let args = Shared(&args);
        // SAFETY: the caller's promises.
        self.run(launch, |block| unsafe { run_block(&launch.instance, block, *args.get()) });
    }

    pub(crate) fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<Duration> {
        let start = Instant::now();
        work()?;
        Ok(start.elapsed())
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU, {} threads (#{})", self.threads(), self.number)
    }
}
