//! Where work on an open device fails.

use ferronorm::driver::DriverError;
use ferronorm::{Device, Error, LayerNorm, Result, Tensor};

use crate::fake::Fake;

/// The fake driver's memory.
const MEMORY: usize = 1 << 20;

/// An error, and nothing left of what the call had begun: the device works as before.
pub fn out_of_memory() {
    let fake = Fake::open();
    let device = Device::gpu(0).expect("a device");
    let too_much = Tensor::<f32>::zeros(&device, [2 * MEMORY / 4]);
    let Err(Error::OutOfMemory { bytes, source: Some(source) }) = &too_much else {
        panic!("{:?}", too_much.map(|_| "it has room"))
    };
    assert_eq!((*bytes, source.code), (2 * MEMORY, 2));
    assert_eq!(source.to_string(), "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    let text = format!("out of memory: {bytes} bytes asked for");
    assert_eq!(too_much.err().map(|error| error.to_string()), Some(text));

    // There is room for x, and none for y.
    let (rows, columns) = (160, 1024);
    let x = Tensor::<f32>::zeros(&device, [rows, columns]).expect("room");
    let w = Tensor::<f32>::zeros(&device, [columns]).expect("room");
    let layer = LayerNorm::new(&device);
    let before = fake.left();
    for _ in 0..3 {
        let forward = layer.forward(&x, &w, &w, 1e-5).map(|(y, _)| y.shape().to_vec());
        assert!(matches!(forward, Err(Error::OutOfMemory { .. })), "{forward:?}");
        assert_eq!(fake.left(), before);
    }
    drop(x);

    let data: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let small = Tensor::from_slice(&device, &data, [1000]).expect("room");
    assert_eq!(small.to_vec().expect("a copy"), data);
    let x = Tensor::<f32>::zeros(&device, [8, columns]).expect("room");
    layer.forward(&x, &w, &w, 1e-5).expect("room");
    drop((small, x, w, layer, device));
    assert_eq!((fake.misuse(), fake.left()), Default::default());
}

/// Every call says what happened, whatever it is for. Then all is dropped.
fn lost(device: Device, mut x: Tensor<f32>, layer: LayerNorm) {
    let w = [0.0f32; 64];
    let calls: [(&str, Result<()>); 8] = [
        ("wait", device.synchronize()),
        ("read", x.to_vec().map(|_| ())),
        ("write", x.copy_from_slice(&[0.0; 64])),
        ("clear", x.clear()),
        ("time", device.time(|| Ok(())).map(|_| ())),
        ("allocate", Tensor::from_slice(&device, &w, [64]).map(|_| ())),
        ("forward", layer.forward(&x, &x, &x, 1e-5).map(|_| ())),
        ("open", Device::gpu(0).map(|_| ())),
    ];
    for (call, result) in calls {
        let Err(Error::Driver { source: DriverError { code: 700, .. }, .. }) = &result else {
            panic!("{call}: {result:?}")
        };
        let text = result.err().map(|error| error.to_string()).unwrap_or_default();
        let words = "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered";
        assert!(text.ends_with(words), "{call}: {text}");
    }
    drop((x, layer));
    drop(device);
    assert_eq!(Fake::open().misuse(), "");
}

fn begin() -> (Device, Tensor<f32>, LayerNorm) {
    let device = Device::gpu(0).expect("a device");
    let x = Tensor::zeros(&device, [64]).expect("room");
    let layer = LayerNorm::new(&device);
    (device, x, layer)
}

pub fn lost_by_a_launch() {
    let (device, x, layer) = begin();
    let Err(error) = layer.forward(&x, &x, &x, 1e-5) else { panic!("the launch fails") };
    assert!(error.to_string().starts_with("launching a kernel: CUDA_ERROR_ILLEGAL_ADDRESS"));
    lost(device, x, layer);
}

/// The usual way: the launch went well, and the error comes with the next call that waits.
pub fn lost_before_a_wait() {
    let (device, x, layer) = begin();
    layer.forward(&x, &x, &x, 1e-5).map(|_| ()).expect("a launch");
    Fake::open().fail(0, 700);
    lost(device, x, layer);
}
