//! What can go wrong, and what is said of it: the argument, what came, and what was wanted.

use std::ops::{Range, RangeInclusive};

use crate::driver::DriverError;
use crate::plan::DataType;

/// Why a call did nothing. Nothing has been written when one of these is returned for an argument.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor's shape does not fit the others'.
    #[error("{argument}: shape {found:?}, where {expected:?} is wanted")]
    Shape {
        /// The argument's name.
        argument: &'static str,
        /// Its shape.
        found: Vec<usize>,
        /// The shape wanted.
        expected: Vec<usize>,
    },
    /// There are too many dimensions, or too few.
    #[error("{argument}: {found} dimensions, where {} are wanted", numbers(wanted))]
    Rank {
        /// The argument's name.
        argument: &'static str,
        /// Its dimensions.
        found: usize,
        /// The dimensions wanted.
        wanted: RangeInclusive<usize>,
    },
    /// A tensor's elements lie in a way that the kernels do not take.
    #[error("{argument}: shape {shape:?} with strides {strides:?}, where {wanted} is wanted")]
    Strides {
        /// The argument's name.
        argument: &'static str,
        /// Its shape.
        shape: Vec<usize>,
        /// Its strides, in elements.
        strides: Vec<usize>,
        /// How they should lie.
        wanted: &'static str,
    },
    /// Elements are asked for that the tensor has not.
    #[error("{argument}: elements {found:?}, where elements of 0..{elements} are wanted")]
    Bounds {
        /// The argument's name.
        argument: &'static str,
        /// The elements asked for; the end is `usize::MAX` also where it would be more.
        found: Range<usize>,
        /// How many the tensor has.
        elements: usize,
    },
    /// w and b are of a type that does not go with x's.
    #[error("w and b: {w}, where x is {x}: {} is wanted", weights(*x))]
    Dtypes {
        /// The type of x.
        x: DataType,
        /// The type of w and b.
        w: DataType,
    },
    /// A slice's length does not fit the tensor's.
    #[error("{argument}: {found} elements, where {expected} are wanted")]
    Length {
        /// The argument's name.
        argument: &'static str,
        /// Its length.
        found: usize,
        /// The length wanted.
        expected: usize,
    },
    /// Two tensors, or a tensor and a layer, are on different devices.
    #[error("{argument}: on {found}, where the layer is on {expected}")]
    DeviceMismatch {
        /// The argument's name.
        argument: &'static str,
        /// Its device.
        found: String,
        /// The device wanted.
        expected: String,
    },
    /// eps is negative or not finite.
    #[error("eps: {found:?}, where a finite number of at least 0 is wanted")]
    Epsilon {
        /// What came.
        found: f64,
    },
    /// An option asks for no blocks or no groups.
    #[error("{option}: 0, where at least 1 is wanted")]
    ZeroOption {
        /// The option's name.
        option: &'static str,
    },
    /// Fewer groups than blocks, where each block is to have its own.
    #[error("groups: {found}, where a deterministic reduction of {wanted} blocks wants {wanted}")]
    Groups {
        /// The groups asked for.
        found: u32,
        /// The blocks.
        wanted: u32,
    },
    /// An argument that goes with another one: the sum with the residual, and a gradient with what
    /// it is the gradient of.
    #[error("{given}: given, where there is no {absent}")]
    Absent {
        /// The argument's name.
        given: &'static str,
        /// The name of the other one.
        absent: &'static str,
    },
    /// No CUDA driver could be loaded.
    #[error("{reason}")]
    NoDriver {
        /// A sentence that names the files tried.
        reason: String,
    },
    /// The library found as the driver is the CUDA toolkit's stub, which a program links with and
    /// cannot run on.
    #[error(
        "no CUDA driver library: the one found is the CUDA toolkit's stub; \
         leave its directory out of the paths that libraries are looked for in"
    )]
    StubDriver,
    /// The driver is there, a device of this number is not.
    #[error("device {ordinal}: the driver shows {count} devices")]
    NoDevice {
        /// The device asked for.
        ordinal: u32,
        /// Devices that there are.
        count: u32,
    },
    /// The device is of an older architecture than any PTX file needs.
    #[error("device of compute capability {found}: the kernels need {needed} or newer")]
    Architecture {
        /// Its compute capability times ten.
        found: u32,
        /// The least that a PTX file is for, times ten.
        needed: u32,
    },
    /// The driver is older than the PTX file.
    #[error(
        "driver for CUDA {}.{}: PTX ISA {}.{} needs one for CUDA {}.{} or newer",
        driver.0, driver.1, ptx.0, ptx.1, needed.0, needed.1
    )]
    DriverTooOld {
        /// The CUDA version that the driver serves.
        driver: (u32, u32),
        /// The PTX file's version.
        ptx: (u32, u32),
        /// The CUDA version that serves it.
        needed: (u32, u32),
    },
    /// A PTX text has no `.version` or `.target`.
    #[error("PTX: no {directive} directive")]
    Ptx {
        /// What is missing.
        directive: &'static str,
    },
    /// The PTX has no such kernel.
    #[error("PTX: no kernel {kernel}")]
    Missing {
        /// The kernel's name.
        kernel: String,
    },
    /// The driver refused the PTX.
    #[error("loading the kernels: {source}{}", said(log))]
    Load {
        /// The driver's error.
        source: DriverError,
        /// The log of its compiler; empty where it did not get as far as to compile.
        log: String,
    },
    /// A shape has more elements than memory can have.
    #[error("shape: {found:?} has more elements than memory can hold")]
    TooLarge {
        /// The shape asked for.
        found: Vec<usize>,
    },
    /// The device has no room left. It still works.
    #[error("out of memory: {bytes} bytes asked for")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
        /// The driver's error; `None` on the CPU.
        source: Option<DriverError>,
    },
    /// Another call of the driver failed.
    #[error("{operation}: {source}")]
    Driver {
        /// What was tried.
        operation: &'static str,
        /// The driver's error.
        source: DriverError,
    },
}

impl Error {
    /// For `map_err` on a driver call.
    pub(crate) fn driver<E: Into<DriverError>>(operation: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Error::Driver { operation, source: error.into() }
    }
}

/// "3", or "1 to 8".
fn numbers(range: &RangeInclusive<usize>) -> String {
    let (least, most) = (range.start(), range.end());
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

/// The compiler's log, where there is one.
fn said(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; the driver's log: {log}") }
}

/// The types of w and b that go with an x of type `x`: its own, and f32 for one of 16 bits.
fn weights(x: DataType) -> String {
    match x {
        DataType::F16 | DataType::Bf16 => format!("{x} or {}", DataType::F32),
        x => x.to_string(),
    }
}

#[cfg(test)]
mod tests;
