//! The launches themselves, on device pointers and a stream of yours, or on the CPU.
//!
//! For callers who own their memory, such as another framework: make [`Kernels`] once for the
//! current context (or a [`Cpu`]), plan with [`crate::plan`], fill the arguments' structs, launch.
//! [`Call`] does the planning and the filling in for the usual case. A launch does not allocate,
//! copy or wait.
//!
//! Rows that are split into chunks need scratch memory of [`crate::plan::Forward::parts`] and
//! [`crate::plan::Backward::parts`] bytes (16-byte aligned). Backward needs
//! [`crate::plan::Backward::sums`] bytes (likewise) and [`crate::plan::Backward::locks`] words. The
//! words must be 0 before the first launch; stage 2 leaves them at 0, so a pair of launches leaves
//! them ready for the next, also in a replayed CUDA graph. Where a stage 1 was launched without its
//! stage 2, clear them. With [`crate::Reduction::Deterministic`] no block shares a group, and the words
//! are never read: they may hold anything. Launches that run at the same time need scratch of their
//! own.
//!
//! Rows that are not whole, aligned packs are read in whole granules of 16 bytes, on 16-byte
//! boundaries: with those up to 14 bytes before and behind a matrix that share a granule with it. They
//! make no difference, and nothing but the matrix is written. (CUDA allocates in larger granules.)

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use cust::sys::{
    self, CUdevice_attribute_enum as Attribute, CUfunction, CUfunction_attribute_enum, CUmodule,
    CUstream,
};
use kernels::args::{BackwardArgs, ColumnsArgs, ForwardArgs, LimitArgs};

use crate::driver::{self, CUlaunchAttribute, CUlaunchConfig, check, cuLaunchKernelEx};
use crate::plan::{Backward, DeviceInfo, Forward, Instance, Kernel, Launch, instances};
use crate::ptx::{self, Ptx};
use crate::{Error, Result};

mod call;

pub use crate::device::cpu::Cpu;
pub use call::{Call, Gradients, Scratch};

/// The kernels of a PTX file, for one context.
///
/// The driver compiles each kernel when it is first launched, and keeps the result on disk: the
/// whole file at once took 9.8 s, and a program needs a few kernels of it. A kernel that is to be
/// captured in a CUDA graph must have been launched, or [`Kernels::prepare`]d, before.
pub struct Kernels {
    prelude: String,
    functions: HashMap<Instance, Lazy>,
    loading: Mutex<()>,
    info: DeviceInfo,
}

/// A kernel's text, and what the driver made of it.
struct Lazy {
    text: String,
    loaded: OnceLock<(CUmodule, CUfunction)>,
}

// SAFETY: the driver's handles may be used from any thread, at once.
unsafe impl Send for Kernels {}
// SAFETY: as above; loading is under a lock.
unsafe impl Sync for Kernels {}

impl Kernels {
    /// Takes a PTX file for the context that is current on this thread, and has the driver compile
    /// the smallest kernel of it, so that a file that it refuses is known here.
    ///
    /// # Safety
    ///
    /// A context must be current. It must outlive the value, and be current whenever a method of it
    /// is called and when it is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::NoDriver`], [`Error::Load`] with the log of the driver's compiler, or another
    /// driver error.
    pub unsafe fn load(ptx: &Ptx) -> Result<Kernels> {
        driver::library().map_err(|reason| Error::NoDriver { reason: reason.into() })?;
        let ring = ptx.target >= ptx::RING_TARGET;
        let (prelude, entries) = ptx.entries();
        let named: HashMap<String, Instance> =
            instances(ring).into_iter().map(|instance| (instance.to_string(), instance)).collect();
        let functions = entries.filter_map(|(name, text)| {
            let lazy = Lazy { text: text.to_owned(), loaded: OnceLock::new() };
            Some((*named.get(name)?, lazy))
        });
        let kernels = Kernels {
            prelude: prelude.to_owned(),
            functions: functions.collect(),
            loading: Mutex::new(()),
            info: current_device_info(ring)?,
        };
        // The first that there is: the same one in every process, so that the driver has it on disk.
        let small = instances(ring).into_iter().find(|instance| {
            instance.kernel == Kernel::BackwardColumns && kernels.functions.contains_key(instance)
        });
        if let Some(instance) = small {
            kernels.prepare(instance)?;
        }
        Ok(kernels)
    }

    /// What the planner needs to know of the context's device and of these kernels.
    pub fn info(&self) -> DeviceInfo {
        self.info
    }

    /// Has the driver compile a kernel, unless it has already.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] with the log of the driver's compiler, or another driver error.
    pub fn prepare(&self, instance: Instance) -> Result<()> {
        self.function(instance).map(|_| ())
    }

    /// Leaves what is loaded to the context: for one that is lost, and cannot be made current.
    pub(crate) fn abandon(&mut self) {
        self.functions.clear();
    }

    fn function(&self, instance: Instance) -> Result<CUfunction> {
        let missing = || Error::Missing { kernel: instance.to_string() };
        let lazy = self.functions.get(&instance).ok_or_else(missing)?;
        if let Some((_, function)) = lazy.loaded.get() {
            return Ok(*function);
        }
        // Nothing is left half done by a thread that panics here.
        let _one_at_a_time = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, function)) = lazy.loaded.get() {
            return Ok(*function);
        }
        let text = format!("{}{}", self.prelude, lazy.text);
        let text = CString::new(text).map_err(|_| Error::Ptx { directive: "end of text" })?;
        // SAFETY: a context is current, by the promise of `load`.
        let module = unsafe { driver::load_module(&text) }
            .map_err(|(source, log)| Error::Load { source, log })?;
        let found = find(module, instance, self.info.block_shared_memory);
        let function = found.inspect_err(|_| {
            // SAFETY: just loaded, and given to nobody.
            unsafe { sys::cuModuleUnload(module) };
        })?;
        let (_, function) = lazy.loaded.get_or_init(|| (module, function));
        Ok(*function)
    }

    /// Launches forward on `stream`. `chunks`, `depth` and `late` of the arguments need not be set.
    ///
    /// # Safety
    ///
    /// - The context of [`Kernels::load`] is current; `stream` is one of its streams.
    /// - `plan` was made for these kernels, and for the work of `args`.
    /// - The promises of [`kernels::forward::rows`], from the launch until the stream has run it.
    ///
    /// # Errors
    ///
    /// A driver error.
    pub unsafe fn forward(
        &self,
        plan: &Forward,
        args: &ForwardArgs,
        stream: CUstream,
    ) -> Result<()> {
        let mut args = *args;
        args.extent.chunks = plan.chunks;
        for launch in plan.steps.iter() {
            args.extent.depth = launch.depth;
            args.extent.late = launch.late;
            // SAFETY: the caller's promises.
            unsafe { self.launch(launch, &raw mut args, stream, false)? };
        }
        Ok(())
    }

    /// Launches stage 1 of backward on `stream`. `chunks` and `depth` of the arguments need not be
    /// set.
    ///
    /// # Safety
    ///
    /// As for [`Kernels::forward`], with the promises of [`kernels::backward::rows`].
    ///
    /// # Errors
    ///
    /// A driver error.
    pub unsafe fn backward_rows(
        &self,
        plan: &Backward,
        args: &BackwardArgs,
        stream: CUstream,
    ) -> Result<()> {
        let mut args = *args;
        args.extent.chunks = plan.chunks;
        for launch in plan.rows.iter() {
            args.extent.depth = launch.depth;
            // SAFETY: the caller's promises.
            unsafe { self.launch(launch, &raw mut args, stream, false)? };
        }
        Ok(())
    }

    /// Launches stage 2 of backward on `stream`. With the kernels for sm_90 it may start before
    /// stage 1 has ended, and waits for it: a dependent launch takes about 1 us less.
    ///
    /// # Safety
    ///
    /// As for [`Kernels::forward`], with the promises of [`kernels::columns::reduce`].
    ///
    /// # Errors
    ///
    /// A driver error.
    pub unsafe fn backward_columns(
        &self,
        plan: &Backward,
        args: &ColumnsArgs,
        stream: CUstream,
    ) -> Result<()> {
        let mut args = *args;
        match &plan.columns {
            // SAFETY: the caller's promises. Where stage 1 launched nothing there is nothing of it
            // to wait for.
            Some(launch) => unsafe { self.launch(launch, &raw mut args, stream, self.info.ring) },
            None => Ok(()),
        }
    }

    /// Launches the copy or the addition of [`crate::limit`] on `stream`.
    ///
    /// # Safety
    ///
    /// As for [`Kernels::forward`], with the promises of [`kernels::limit::elementwise`].
    ///
    /// # Errors
    ///
    /// A driver error.
    pub unsafe fn limit(&self, plan: &Launch, args: &LimitArgs, stream: CUstream) -> Result<()> {
        let mut args = *args;
        // SAFETY: the caller's promises.
        unsafe { self.launch(plan, &raw mut args, stream, false) }
    }

    /// # Safety
    ///
    /// As for the callers; `args` points to the kernel's one argument. Only a kernel that waits for
    /// the launch before it may `overlap` with that.
    unsafe fn launch<A>(
        &self,
        launch: &Launch,
        args: *mut A,
        stream: CUstream,
        overlap: bool,
    ) -> Result<()> {
        let Launch { instance, grid, block, shared_memory, .. } = *launch;
        let function = self.function(instance)?;
        let mut parameters = [args.cast::<c_void>()];
        let mut attribute = CUlaunchAttribute::programmatic_stream_serialization();
        let config = CUlaunchConfig {
            grid_dim_x: grid,
            grid_dim_y: 1,
            grid_dim_z: 1,
            block_dim_x: block,
            block_dim_y: 1,
            block_dim_z: 1,
            shared_mem_bytes: shared_memory,
            stream,
            attrs: &mut attribute,
            num_attrs: 1,
        };
        // SAFETY: the caller's promises; the driver copies the argument before it returns.
        let result = unsafe {
            if overlap {
                cuLaunchKernelEx(&config, function, parameters.as_mut_ptr(), ptr::null_mut())
            } else {
                sys::cuLaunchKernel(
                    function,
                    grid,
                    1,
                    1,
                    block,
                    1,
                    1,
                    shared_memory,
                    stream,
                    parameters.as_mut_ptr(),
                    ptr::null_mut(),
                )
            }
        };
        check(result).map_err(Error::driver("launching a kernel"))
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        for (module, _) in self.functions.values().filter_map(|lazy| lazy.loaded.get()) {
            // SAFETY: loaded by `function`, unloaded once; the context is current, by the promise
            // of `load`.
            unsafe { sys::cuModuleUnload(*module) };
        }
    }
}

/// The function of a module that holds one kernel, ready for the shared memory that it may ask for.
fn find(module: CUmodule, instance: Instance, block_shared_memory: u32) -> Result<CUfunction> {
    let name = CString::new(instance.to_string()).unwrap_or_default();
    let mut function = ptr::null_mut();
    // SAFETY: the module is loaded, the name ends in 0.
    check(unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) })
        .map_err(Error::driver("cuModuleGetFunction"))?;
    if instance.feed.is_ring() {
        let attribute = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // What a block has beside its static scratch.
        let most = block_shared_memory as i32 - 1024;
        // SAFETY: the function was just found.
        check(unsafe { sys::cuFuncSetAttribute(function, attribute, most) })
            .map_err(Error::driver("cuFuncSetAttribute"))?;
    }
    Ok(function)
}

/// What the planner needs to know of the device of the current context.
fn current_device_info(ring: bool) -> Result<DeviceInfo> {
    let mut device = 0;
    // SAFETY: `device` is a place to write to.
    check(unsafe { sys::cuCtxGetDevice(&mut device) }).map_err(Error::driver("cuCtxGetDevice"))?;
    let attribute = |attribute: Attribute| {
        let mut value = 0;
        // SAFETY: `value` is a place to write to, `device` was given by the driver.
        check(unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) })
            .map_err(Error::driver("cuDeviceGetAttribute"))?;
        Ok(value as u32)
    };
    Ok(DeviceInfo {
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        block_shared_memory: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?,
        multiprocessor_shared_memory: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        )?,
        ring,
        direct_tiles: false,
    })
}
