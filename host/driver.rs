//! libcuda, found at run time.
//!
//! `cust` expects its `cu*` functions from a library named at link time, so a program that uses
//! it does not link without a CUDA toolkit and does not start without a driver. Here every such
//! function is defined once more: it looks the real one up in `libcuda.so.1` (or in the file that
//! the environment variable `FERRONORM_LIBCUDA` names) and forwards to it, and returns an error
//! code where there is no driver. One build then runs on every machine. Call [`library`] first:
//! its error says in words why there is no driver.
//!
//! Two hazards:
//!
//! - A newer driver may return a code that `cust`'s enum lacks, and reading such a number as the
//!   enum is undefined behaviour. So the real functions are called as returning a plain number;
//!   one that is not in the enum becomes `CUDA_ERROR_UNKNOWN`, and [`last_raw_code`] keeps it.
//! - A shared library must not export these symbols: a process may hold the real ones, and other
//!   code would bind to ours. On Linux each is marked hidden, so a `cdylib` exports none. Keep
//!   checking that with `nm -D` where one is built.

/// Defines functions that forward to libcuda's function of the same name.
///
/// A function behind `no_mangle` answers for the symbol that cust refers to, and its signature is
/// checked against cust's declaration; the others are ordinary Rust functions.
macro_rules! driver {
    (no_mangle: $(fn $name:ident($($arg:ident: $ty:ty),* $(,)?);)*) => {$(
        const _: unsafe extern "C" fn($($ty),*) -> CUresult = cust::sys::$name;

        driver!(@hide $name);

        // SAFETY: the name is libcuda's own. A program that is linked with libcuda too, as candle's
        // are, has its calls come here and go on to it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> CUresult {
            driver!(@forward $name($($arg: $ty),*))
        }
    )*};
    ($(#[$meta:meta])* pub fn $name:ident($($arg:ident: $ty:ty),* $(,)?);) => {
        $(#[$meta])*
        #[allow(non_snake_case)]
        pub unsafe fn $name($($arg: $ty),*) -> CUresult {
            driver!(@forward $name($($arg: $ty),*))
        }
    };
    (@hide $name:ident) => {
        // The most constraining visibility wins, so this line next to the definition suffices.
        #[cfg(all(target_os = "linux", not(miri)))]
        std::arch::global_asm!(concat!(".hidden ", stringify!($name)));
    };
    (@forward $name:ident($($arg:ident: $ty:ty),*)) => {{
        static SYMBOL: $crate::driver::Symbol =
            $crate::driver::Symbol::new(concat!(stringify!($name), "\0"));
        match SYMBOL.address() {
            Ok(address) => {
                type Real = unsafe extern "C" fn($($ty),*) -> std::ffi::c_uint;
                // SAFETY: libcuda keeps the signature of a name for good, and this is the one in
                // cuda.h, with the result read as the number that it is.
                let real = unsafe { std::mem::transmute::<$crate::driver::Address, Real>(address) };
                // SAFETY: the caller keeps the real function's contract; nothing is changed here.
                $crate::driver::code::accept(unsafe { real($($arg),*) })
            }
            Err(code) => $crate::driver::code::accept(code as std::ffi::c_uint),
        }
    }};
}

mod code;
mod error;
mod launch;
mod symbols;

use std::env;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::hint::black_box;
use std::sync::OnceLock;

use cust::sys::CUresult;
use libloading::Library;

pub use code::{NO_LIBRARY, last_raw_code};
pub use error::{DriverError, check, load_module};
pub use launch::{
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, CUlaunchAttribute,
    CUlaunchAttributeValue, CUlaunchConfig, cuLaunchKernelEx,
};

/// Names the file to open instead of the system's driver, for tests with a stand-in.
pub const LIBRARY_VARIABLE: &str = "FERRONORM_LIBCUDA";

const FILE_NAMES: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

/// The driver library, opened at the first call, or why it could not be.
///
/// Whatever uses cust must call this first. It also makes a linker that reads archives from left
/// to right take this module's objects, which nothing before cust would otherwise ask for.
pub fn library() -> Result<&'static Library, &'static str> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(String::as_str)
}

fn load() -> Result<Library, String> {
    black_box([symbols::cuInit as *const (), code::cuGetErrorString as *const ()]);
    match env::var_os(LIBRARY_VARIABLE) {
        Some(name) if !name.is_empty() => open([name]),
        _ => open(FILE_NAMES.iter().map(OsString::from)),
    }
}

fn open(names: impl IntoIterator<Item = OsString>) -> Result<Library, String> {
    let mut reasons = Vec::new();
    for name in names {
        // SAFETY: the file is the system's driver, or one that the user named to stand in for it;
        // its initialisers are trusted as those of any linked library would be.
        match unsafe { Library::new(&name) } {
            Ok(library) if has_init(&library) => return Ok(library),
            Ok(_) => reasons.push(format!("{} has no cuInit", name.display())),
            Err(error) => reasons.push(reason(&name, &error)),
        }
    }
    Err(format!("no CUDA driver library: {}", reasons.join("; ")))
}

/// The system's words, which stand in the error's source; most systems name the file in them.
fn reason(name: &OsStr, error: &libloading::Error) -> String {
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let name = name.to_string_lossy();
    if text.contains(name.as_ref()) { text } else { format!("{name}: {text}") }
}

fn has_init(library: &Library) -> bool {
    // SAFETY: the address is not called, so that its type does not matter.
    unsafe { library.get::<Address>(c"cuInit") }.is_ok()
}

/// Some function of libcuda, whatever its signature.
type Address = unsafe extern "C" fn();

/// One function of libcuda, looked up at its first call.
struct Symbol {
    name: &'static str,
    address: OnceLock<Result<Address, CUresult>>,
}

impl Symbol {
    /// `name` ends in NUL, which saves a copy at the lookup.
    const fn new(name: &'static str) -> Self {
        Self { name, address: OnceLock::new() }
    }

    fn address(&self) -> Result<Address, CUresult> {
        *self.address.get_or_init(|| {
            let library = library().map_err(|_| NO_LIBRARY)?;
            // SAFETY: every name here is a function's, and the library is never closed. Callers
            // give the address its real type.
            unsafe { library.get::<Address>(self.name) }
                .map(|symbol| *symbol)
                .map_err(|_| CUresult::CUDA_ERROR_NOT_FOUND)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_library_is_an_error_that_names_each_file_tried() {
        let names = ["/nonexistent/libcuda.so.1", "/nonexistent/libcuda.so"];
        let message = open(names.map(OsString::from)).unwrap_err();
        for name in names {
            assert!(message.contains(name), "{message}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn another_library_is_not_taken_for_the_driver() {
        let message = open([OsString::from("libc.so.6")]).unwrap_err();
        assert!(message.contains("libc.so.6 has no cuInit"), "{message}");
    }

    #[test]
    fn a_missing_symbol_is_an_error_code() {
        let expected = match library() {
            Ok(_) => CUresult::CUDA_ERROR_NOT_FOUND,
            Err(_) => NO_LIBRARY,
        };
        let symbol = Symbol::new("cuNoSuchFunction\0");
        assert_eq!(symbol.address().unwrap_err(), expected);
    }

    #[test]
    fn without_a_library_cust_gets_an_error() {
        let started = cust::init(cust::CudaFlags::empty());
        if library().is_err() {
            assert_eq!(started, Err(cust::error::CudaError::SharedObjectInitFailed));
            assert_eq!(last_raw_code(), NO_LIBRARY as u32);
        }
    }
}
