//! The raw layer: launches on device pointers and a stream of the caller's, in a context of the
//! caller's, on strided and unaligned rows, give the bits of the safe layer.

use std::process::ExitCode;

use common::raw::{self, Layout, Raw, as_bytes};
use common::{Inputs, Outcome, Outputs, Suite, each_pair, layer, run};
use cust::context::{Context, CurrentContext};
use cust::stream::{Stream, StreamFlags};
use ferronorm::plan::Storage;
use ferronorm::raw::Kernels;
use ferronorm::{Device, Dtype, Options};

mod common;

const PACKED: Layout = Layout { offsets: [0; 4], gaps: [0; 4], vectors: [0; 4] };

const LAYOUTS: [Layout; 9] = [
    PACKED,
    Layout { offsets: [8, 16, 0, 24], gaps: [8, 0, 24, 16], ..PACKED },
    Layout { offsets: [1, 3, 5, 7], ..PACKED },
    Layout { offsets: [0, 1, 0, 3], gaps: [1, 2, 3, 0], ..PACKED },
    // A stride of each matrix's own: all aligned, and none.
    Layout { offsets: [16, 0, 8, 24], gaps: [8, 16, 24, 32], ..PACKED },
    Layout { offsets: [1, 2, 3, 4], gaps: [5, 3, 7, 1], ..PACKED },
    // Vectors that no copy brings whole, with rows that are aligned, and rows that are not.
    Layout { vectors: [1, 2, 3, 5], ..PACKED },
    Layout { offsets: [1, 2, 3, 4], vectors: [3, 0, 1, 1], ..PACKED },
    Layout { offsets: [8, 16, 0, 24], gaps: [1; 4], vectors: [0, 1, 0, 7] },
];

fn check<E: Dtype, P: Dtype>(device: &Device, shape: [usize; 2]) -> Outcome {
    let inputs = Inputs::<E, P>::seed(shape[0], shape[1], 21);
    let right = run(&layer(device, Options::default()), &inputs)?;

    let context = Context::new(cust::device::Device::get_device(0)?)?;
    CurrentContext::set_current(&context)?;
    // SAFETY: the context is current, and outlives the kernels.
    let kernels = unsafe { raw::load(device)? };
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    for layout in LAYOUTS {
        check_layout(&kernels, &stream, &inputs, layout, &right)?;
    }
    Ok(())
}

fn check_layout<E: Dtype, P: Dtype>(
    kernels: &Kernels,
    stream: &Stream,
    inputs: &Inputs<E, P>,
    layout: Layout,
    right: &Outputs<E, P>,
) -> Outcome {
    let problem = Raw::new(kernels, inputs, layout, Options::default())?;
    // Copies to the device may still be under way.
    CurrentContext::synchronize()?;
    // SAFETY: the context is current, and the problem lives until the stream has been waited for.
    unsafe { problem.launch(kernels, stream)? };
    stream.synchronize()?;

    assert!(problem.y.read("y") == as_bytes(&right.y), "y, {layout:?}");
    assert!(problem.dx.read("dx") == as_bytes(&right.dx), "dx, {layout:?}");
    // dw and db are summed in the order of the tiles, which is another on the unaligned path.
    let near = |found: Vec<u8>, right: &[P]| {
        // SAFETY: made of elements by `read`; `read_unaligned` asks for no alignment.
        let found = found
            .chunks(size_of::<P>())
            .map(|c| unsafe { c.as_ptr().cast::<P>().read_unaligned() });
        reference::Error::of(found.map(P::to_f64), &common::widen(right)).relative_l2
    };
    for (what, matrix, right) in [("dw", &problem.dw, &right.dw), ("db", &problem.db, &right.db)] {
        let error = near(matrix.read(what), right.as_deref().expect("it was asked for"));
        assert!(error < 1e-3, "{what}, {layout:?}: {error}");
    }
    assert!(problem.unlocked(), "stage 2 leaves the locks at 0");
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    for shape in
        [[300, 1024], [33, 8192], [65, 1000], [64, 1023], [50, 1152], [20, 12288], [5, 20000]]
    {
        each_pair!(E, P => {
            let types = Storage { x: E::DTYPE, params: P::DTYPE };
            let name = format!("raw {types} {} x {}", shape[0], shape[1]);
            suite.gpu(&name, move |device| check::<E, P>(device, shape));
        });
    }
    suite.run()
}
