//! The compiled half of the Python package: LayerNorm on addresses.
//!
//! The Python half owns the memory, and says where arrays lie and how large they are. This half plans
//! and launches. `device` is a CUDA device's number, or -1 for the CPU.

use ferronorm::Error;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

mod call;
mod device;

/// A wrong argument is a `ValueError`, as in Python; whatever the driver says is a `RuntimeError`.
fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::OutOfMemory { .. } => PyMemoryError::new_err(text),
        Error::Dtypes { .. } | Error::TooLarge { .. } => PyValueError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

#[pymodule]
mod _ferronorm {
    use ferronorm::plan::{DataType, Storage};
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::call::{Backward, Forward};

    /// Adds the version, and the types of x and of w that there are kernels for, by NumPy's names:
    /// a pair's place in the list stands for it in calls.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let name = |dtype| match dtype {
            DataType::F64 => "float64",
            DataType::F32 => "float32",
            DataType::F16 => "float16",
            DataType::Bf16 => "bfloat16",
        };
        module.add("TYPES", Storage::ALL.map(|pair| (name(pair.x), name(pair.params))))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
