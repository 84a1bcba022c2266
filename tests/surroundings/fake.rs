//! The fake driver's own functions. Its documentation says what they do.

use std::env;
use std::ffi::c_char;

use ferronorm::driver::LIBRARY_VARIABLE;
use libloading::{Library, Symbol};

/// The library that ferronorm has opened as the driver.
pub struct Fake(Library);

impl Fake {
    pub fn open() -> Fake {
        let name = env::var_os(LIBRARY_VARIABLE).expect("set for each case");
        // SAFETY: the library has no initialisers to speak of.
        Fake(unsafe { Library::new(name) }.expect("the fake driver"))
    }

    /// Starts afresh, with nothing made and nothing lost.
    pub fn reset(&self) {
        // SAFETY: the function's signature.
        let reset: Symbol<extern "C" fn()> =
            unsafe { self.0.get("fake_cuda_reset") }.expect("of the fake driver");
        reset();
    }

    /// The call with this number from now, 0 for the next one, fails.
    pub fn fail(&self, number: u64, code: u32) {
        // SAFETY: the function's signature.
        let fail: Symbol<extern "C" fn(u64, u32)> =
            unsafe { self.0.get("fake_cuda_fail") }.expect("of the fake driver");
        fail(number, code);
    }

    /// The function that failed as [`Fake::fail`] asked, or nothing.
    pub fn failed(&self) -> String {
        self.text("fake_cuda_failed")
    }

    /// What the driver was misused for.
    pub fn misuse(&self) -> String {
        self.text("fake_cuda_misuse")
    }

    /// What was made and is still there.
    pub fn left(&self) -> String {
        self.text("fake_cuda_left")
    }

    fn text(&self, name: &str) -> String {
        type Function = unsafe extern "C" fn(*mut c_char, usize) -> usize;
        let mut text = vec![0_u8; 4096];
        // SAFETY: the function's signature.
        let function: Symbol<Function> = unsafe { self.0.get(name) }.expect("of the fake driver");
        // SAFETY: the buffer is as long as said.
        let length = unsafe { function(text.as_mut_ptr().cast(), text.len()) };
        String::from_utf8_lossy(&text[..length]).into_owned()
    }
}
