//! Where no device can be opened, or not with every PTX.

use ferronorm::driver::DriverError;
use ferronorm::{Device, Error, ptx};

use crate::fake::Fake;

/// What opening the first GPU says.
fn error() -> Error {
    Device::gpu(0).expect_err("a device that cannot be opened")
}

fn driver_error(code: u32, name: &str, text: &str) -> DriverError {
    DriverError { code, name: name.into(), text: text.into() }
}

/// There is no driver, and the reason says why; the CPU takes its place.
fn no_driver(words: &[&str]) {
    let Error::NoDriver { reason } = error() else { panic!("{:?}", error()) };
    assert_eq!(error().to_string(), reason);
    for word in [&["no CUDA driver library: "], words].concat() {
        assert!(reason.contains(word), "{reason:?} lacks {word:?}");
    }
    assert!(!Device::auto().expect("the CPU").is_gpu());
}

/// Another error, which is not hidden by taking the CPU.
fn unusable(expected: &Error, text: &str) {
    assert_eq!(&error(), expected);
    assert_eq!(error().to_string(), text);
    assert_eq!(Device::auto().expect_err("there is a driver"), *expected);
    clean();
}

/// The driver was used well, and nothing is left of it.
fn clean() {
    let fake = Fake::open();
    assert_eq!((fake.misuse(), fake.left()), Default::default());
}

pub fn no_file() {
    no_driver(&["/nonexistent/libcuda.so.1"]);
}

pub fn no_library() {
    no_driver(&["Cargo.toml"]);
}

#[cfg(target_os = "linux")]
pub fn another_library() {
    no_driver(&["libc.so.6 has no cuInit"]);
}

pub fn stub() {
    let text = "no CUDA driver library: the one found is the CUDA toolkit's stub; \
                leave its directory out of the paths that libraries are looked for in";
    unusable(&Error::StubDriver, text);
}

pub fn no_device() {
    assert_eq!(error(), Error::NoDevice { ordinal: 0, count: 0 });
    assert_eq!(error().to_string(), "device 0: the driver shows 0 devices");
    assert!(!Device::auto().expect("the CPU").is_gpu());
}

pub fn zero_devices() {
    no_device();
}

pub fn two_devices() {
    for ordinal in [2, 99, u32::MAX] {
        let error = Device::gpu(ordinal).expect_err("there are two");
        assert_eq!(error, Error::NoDevice { ordinal, count: 2 });
        assert_eq!(error.to_string(), format!("device {ordinal}: the driver shows 2 devices"));
    }
    let second = Device::gpu(1).expect("there are two");
    assert!(second.to_string().contains("Fake GPU, GPU 1"), "{second}");
    drop(second);
    clean();
}

pub fn mismatch() {
    let name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
    // The fake driver does not know the code: the name is one of ours, and stands for the text.
    let source = driver_error(803, name, name);
    let text = format!("starting the driver: {name} (803): {name}");
    unusable(&Error::Driver { operation: "starting the driver", source }, &text);
}

pub fn unknown_code() {
    let source = driver_error(999_999, "unrecognized CUDA error", "the driver has no text for it");
    let text = "starting the driver: \
                unrecognized CUDA error (999999): the driver has no text for it";
    unusable(&Error::Driver { operation: "starting the driver", source }, text);
}

pub fn old_driver() {
    let error = Error::DriverTooOld { driver: (9, 2), ptx: (6, 3), needed: (10, 0) };
    unusable(&error, "driver for CUDA 9.2: PTX ISA 6.3 needs one for CUDA 10.0 or newer");
}

pub fn old_device() {
    let error = Error::Architecture { found: 61, needed: 75 };
    unusable(&error, "device of compute capability 61: the kernels need 75 or newer");
}

/// The older PTX runs; the newest is refused before the driver sees it.
fn newest_refused(expected: &Error) {
    let device = Device::gpu(0).expect("the older PTX runs");
    assert!(!device.info().ring);
    let [newest, oldest] = ptx::all().expect("the built files");
    // SAFETY: the built files keep the promises.
    let refused = unsafe { Device::gpu_with_ptx(0, &newest) };
    assert_eq!(refused.expect_err("too new"), *expected);
    // SAFETY: as above.
    drop(unsafe { Device::gpu_with_ptx(0, &oldest) }.expect("the older PTX runs"));
    drop(device);
    clean();
}

pub fn older_driver() {
    newest_refused(&Error::DriverTooOld { driver: (11, 8), ptx: (8, 0), needed: (12, 0) });
}

pub fn older_device() {
    newest_refused(&Error::Architecture { found: 86, needed: 90 });
}

pub fn corrupt_ptx() {
    let log = "ptxas application ptx input, line 9; fatal   : Parsing error near '?': syntax error";
    let source = driver_error(218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed");
    let text = format!(
        "loading the kernels: CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed; \
         the driver's log: {log}"
    );
    unusable(&Error::Load { source, log: log.into() }, &text);
}

pub fn unsupported_ptx() {
    let log = "ptxas application ptx input, line 1; fatal   : Unsupported .version 9.9";
    let name = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
    let text = format!("loading the kernels: {name} (222): {name}; the driver's log: {log}");
    unusable(&Error::Load { source: driver_error(222, name, name), log: log.into() }, &text);
}
