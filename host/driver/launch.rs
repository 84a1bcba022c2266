//! `cuLaunchKernelEx` (CUDA 11.8 on), which cust lacks: a launch with attributes.

use std::ffi::{c_int, c_uint, c_void};

use cust::sys::{CUfunction, CUresult, CUstream};

/// The kernel itself waits for the one before it (`griddepcontrol.wait`), so that it may start
/// while that one still runs.
pub const CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: c_uint = 6;

/// The value of a [`CUlaunchAttribute`]; its id says which field holds it.
#[repr(C)]
#[derive(Clone, Copy)]
pub union CUlaunchAttributeValue {
    /// cuda.h keeps 64 bytes, with the alignment of the pointers that some fields hold.
    pub pad: [u64; 8],
    /// For [`CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`]: not 0 to allow it.
    pub programmatic_stream_serialization_allowed: c_int,
}

/// One attribute of a launch, as in cuda.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CUlaunchAttribute {
    /// Which attribute this is.
    pub id: c_uint,
    /// Keeps the value at 8 bytes.
    pub pad: [u8; 4],
    /// Its value.
    pub value: CUlaunchAttributeValue,
}

impl CUlaunchAttribute {
    /// Lets the launch start before the kernel ahead of it in the stream has finished.
    pub const fn programmatic_stream_serialization() -> Self {
        let mut value = CUlaunchAttributeValue { pad: [0; 8] };
        value.programmatic_stream_serialization_allowed = 1;
        Self { id: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, pad: [0; 4], value }
    }
}

/// The shape of a launch, as in cuda.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CUlaunchConfig {
    /// Blocks along x.
    pub grid_dim_x: c_uint,
    /// Blocks along y.
    pub grid_dim_y: c_uint,
    /// Blocks along z.
    pub grid_dim_z: c_uint,
    /// Threads of a block along x.
    pub block_dim_x: c_uint,
    /// Threads of a block along y.
    pub block_dim_y: c_uint,
    /// Threads of a block along z.
    pub block_dim_z: c_uint,
    /// Bytes of dynamic shared memory of a block.
    pub shared_mem_bytes: c_uint,
    /// The stream.
    pub stream: CUstream,
    /// The attributes; may be null if there are none. The driver only reads them.
    pub attrs: *mut CUlaunchAttribute,
    /// How many attributes there are.
    pub num_attrs: c_uint,
}

const _: () = {
    assert!(size_of::<CUlaunchAttribute>() == 72 && align_of::<CUlaunchAttribute>() == 8);
    assert!(std::mem::offset_of!(CUlaunchAttribute, value) == 8);
    if cfg!(target_pointer_width = "64") {
        assert!(size_of::<CUlaunchConfig>() == 56);
        assert!(std::mem::offset_of!(CUlaunchConfig, stream) == 32);
        assert!(std::mem::offset_of!(CUlaunchConfig, num_attrs) == 48);
    }
};

driver! {
    /// Launches `function` with the shape and attributes of `config`.
    ///
    /// Returns `CUDA_ERROR_NOT_FOUND` where the driver is older than the function.
    ///
    /// # Safety
    ///
    /// - `config` is valid for reads, and so are its `num_attrs` attributes.
    /// - `function` is a loaded kernel of the current context, and the stream is of that context.
    /// - `params` points to one pointer per argument of the kernel, each to a value of its type;
    ///   `extra` is null, or replaces `params` as cuda.h says.
    /// - Memory that the kernel reaches through its arguments stays valid until it has run, and
    ///   is used by nothing that would race with it.
    pub fn cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        function: CUfunction,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
}
