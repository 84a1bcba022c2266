//! CUDA graphs: forward and backward captured once, and replayed with other inputs, give what they
//! give when they are launched. A capture that allocated or waited would fail.

use std::ffi::c_void;
use std::process::ExitCode;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use common::raw::{self, Layout, Raw, as_bytes};
use common::{Inputs, Outcome, Suite, each_dtype, layer, run};
use cust::context::{Context, CurrentContext};
use cust::stream::{Stream, StreamFlags};
use cust::sys::CUstream;
use ferronorm::{Device, Dtype, Options};
use libloading::Library;

mod common;

type Handle = *mut c_void;

/// Calls a function of libcuda that the library itself has no use for.
macro_rules! call {
    ($library:expr, $name:literal($($type:ty),*), $($value:expr),*) => {{
        // SAFETY: the function's signature in cuda.h; handles are live, places to write to exist.
        let result = unsafe {
            $library.get::<unsafe extern "C" fn($($type),*) -> u32>($name)?($($value),*)
        };
        assert_eq!(result, 0, concat!(stringify!($name), ": an error of the driver"));
    }};
}

/// Prohibits calls by this thread that are unsafe during a capture; other tests may make them.
const CAPTURE_MODE_THREAD_LOCAL: u32 = 1;

/// Held by the trial that runs: another's wait for the context would break off its capture.
static TURN: Mutex<()> = Mutex::new(());

fn check<E: Dtype>(device: &Device, shape: [usize; 2], aligned: bool) -> Outcome {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let first = Inputs::<E>::seed(shape[0], shape[1], 60);
    // Other rows, with the same w and b.
    let other = |seed| {
        let Inputs { x, dy, .. } = Inputs::<E>::seed(shape[0], shape[1], seed);
        Inputs { x, dy, ..first.clone() }
    };
    let inputs: Vec<_> = (60..70).map(other).collect();
    let options = Options::default();
    let layer = layer(device, options);

    // SAFETY: libcuda, which the device has opened before.
    let cuda = unsafe { Library::new("libcuda.so.1")? };
    let context = Context::new(cust::device::Device::get_device(0)?)?;
    CurrentContext::set_current(&context)?;
    // SAFETY: the context is current, and outlives the kernels.
    let kernels = unsafe { raw::load(device)? };
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let offset = if aligned { 0 } else { 1 };
    let layout = Layout { offsets: [offset; 4], gaps: [0; 4], vectors: [0; 4] };
    let mut problem = Raw::new(&kernels, &inputs[0], layout, options)?;
    // Copies to the device may still be under way.
    CurrentContext::synchronize()?;
    // SAFETY: the context is current, and the problem lives until the stream has been waited for.
    // (The first launch has the kernels compiled, which a capture cannot.)
    unsafe { problem.launch(&kernels, &stream)? };
    stream.synchronize()?;
    let eager = [problem.dw.read("dw"), problem.db.read("db")];

    let (mut graph, mut replay): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
    let on = stream.as_inner();
    call!(cuda, b"cuStreamBeginCapture_v2"(CUstream, u32), on, CAPTURE_MODE_THREAD_LOCAL);
    // SAFETY: as above; the problem outlives the replays.
    unsafe { problem.launch(&kernels, &stream)? };
    call!(cuda, b"cuStreamEndCapture"(CUstream, *mut Handle), on, &mut graph);
    call!(cuda, b"cuGraphInstantiateWithFlags"(*mut Handle, Handle, u64), &mut replay, graph, 0);
    let rights = inputs.iter().map(|inputs| run(&layer, inputs)).collect::<Result<Vec<_>, _>>()?;
    CurrentContext::set_current(&context)?;
    for i in 0..100 {
        let (inputs, right) = (&inputs[i % inputs.len()], &rights[i % inputs.len()]);
        problem.x.write(as_bytes(&inputs.x));
        problem.dy.write(as_bytes(&inputs.dy));
        for output in [&mut problem.y, &mut problem.dx, &mut problem.dw, &mut problem.db] {
            output.poison();
        }
        // The copies may still be under way when they return, and this stream does not wait for them.
        CurrentContext::synchronize()?;
        call!(cuda, b"cuGraphLaunch"(Handle, CUstream), replay, on);
        stream.synchronize()?;
        assert!(problem.y.read("y") == as_bytes(&right.y), "replay {i}: y");
        assert!(problem.dx.read("dx") == as_bytes(&right.dx), "replay {i}: dx");
        let found = [problem.dw.read("dw"), problem.db.read("db")];
        if i % rights.len() == 0 {
            assert!(found == eager, "replay {i}: dw and db");
        }
        // (The layer's tensors are aligned, and may be summed in another order.)
        let right = [&right.dw, &right.db].map(|right| right.as_deref().map_or(&[][..], as_bytes));
        assert!(!aligned || found == right, "replay {i}: dw and db");
        assert!(problem.unlocked(), "replay {i}: stage 2 leaves the locks at 0");
    }
    call!(cuda, b"cuGraphExecDestroy"(Handle), replay);
    call!(cuda, b"cuGraphDestroy"(Handle), graph);
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    for (shape, aligned) in [
        ([200, 1024], true),
        ([50, 8192], true),
        ([64, 1023], true),
        ([100, 768], false),
        ([7, 20000], true),
    ] {
        let what = if aligned { "" } else { ", unaligned" };
        each_dtype!(E => {
            let name = format!("graph {} {} x {}{what}", E::DTYPE, shape[0], shape[1]);
            suite.gpu(&name, move |device| check::<E>(device, shape, aligned));
        });
    }
    suite.run()
}
