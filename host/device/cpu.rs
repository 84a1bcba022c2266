//! The CPU as a device: the kernels' own bodies, blocks spread over OS threads.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kernels::args::{BackwardArgs, ColumnsArgs, ForwardArgs};
use kernels::entry::cpu::{Args, At, run_block};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::Result;
use crate::plan::{Backward, DeviceInfo, Forward, Launch};

/// The kernels on the CPU, on memory of yours: what [`crate::raw::Kernels`] is for a GPU. A launch is
/// over when it returns.
pub struct Cpu {
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
    /// With `threads` OS threads; 0 for as many as there are cores.
    pub fn new(threads: usize) -> Cpu {
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

    /// What the planner needs to know of it.
    pub fn info(&self) -> DeviceInfo {
        DeviceInfo::CPU
    }

    /// Runs forward. `chunks` and `depth` of the arguments need not be set.
    ///
    /// # Safety
    ///
    /// `plan` was made for [`DeviceInfo::CPU`] and for the work of `args`; the promises of
    /// [`kernels::forward::rows`].
    pub unsafe fn forward(&self, plan: &Forward, args: &ForwardArgs) {
        let mut args = *args;
        args.extent.chunks = plan.chunks;
        // SAFETY: the caller's promises.
        plan.steps.iter().for_each(|step| unsafe { self.launch(step, Args::Forward(&args)) });
    }

    /// Runs stage 1 of backward. `chunks` and `depth` of the arguments need not be set.
    ///
    /// # Safety
    ///
    /// As for [`Cpu::forward`], with the promises of [`kernels::backward::rows`].
    pub unsafe fn backward_rows(&self, plan: &Backward, args: &BackwardArgs) {
        let mut args = *args;
        args.extent.chunks = plan.chunks;
        // SAFETY: the caller's promises.
        plan.rows.iter().for_each(|step| unsafe { self.launch(step, Args::Backward(&args)) });
    }

    /// Runs stage 2 of backward.
    ///
    /// # Safety
    ///
    /// As for [`Cpu::forward`], with the promises of [`kernels::columns::reduce`].
    pub unsafe fn backward_columns(&self, plan: &Backward, args: &ColumnsArgs) {
        // SAFETY: the caller's promises.
        plan.columns.iter().for_each(|step| unsafe { self.launch(step, Args::Columns(args)) });
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

/// Its threads, and a number that tells values apart.
impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU, {} threads (#{})", self.threads(), self.number)
    }
}
