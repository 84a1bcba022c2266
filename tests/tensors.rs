//! Tensors and views: what is copied in and out, and what is refused.

use std::process::ExitCode;

use common::refusal::{length, refused};
use common::{Outcome, Suite, each_dtype};
use ferronorm::{Device, Dtype, Error, Tensor};

mod common;

fn counted<E: Dtype>(elements: usize) -> Vec<E> {
    (0..elements).map(|i| E::from_f64(i as f64)).collect()
}

fn copies_of<E: Dtype + PartialEq + std::fmt::Debug>(device: &Device) -> Outcome {
    let data = counted::<E>(120);
    let mut tensor = Tensor::from_slice(device, &data, [2, 3, 4, 5])?;
    assert_eq!(tensor.shape(), [2, 3, 4, 5]);
    assert_eq!((tensor.len(), tensor.is_empty()), (120, false));
    assert_eq!(tensor.to_vec()?, data);
    for range in [0..120, 0..1, 7..20, 119..120, 0..0, 120..120] {
        assert_eq!(tensor.read(range.clone())?, data[range]);
    }

    let mut data = data;
    for (offset, elements) in [(3, 5), (119, 1), (0, 1), (120, 0), (0, 0)] {
        let new = vec![E::from_f64(-1.0 - offset as f64); elements];
        tensor.write(offset, &new)?;
        data[offset..][..elements].copy_from_slice(&new);
        assert_eq!(tensor.to_vec()?, data);
    }
    tensor.copy_from_slice(&counted(120))?;
    assert_eq!(tensor.to_vec()?, counted(120));
    tensor.clear()?;
    assert_eq!(tensor.to_vec()?, [E::default(); 120]);
    Ok(())
}

fn copies(device: &Device) -> Outcome {
    each_dtype!(E => copies_of::<E>(device)?);
    Ok(())
}

fn shapes(device: &Device) -> Outcome {
    let zeros = |shape: &[usize]| Tensor::<f32>::zeros(device, shape);
    assert_eq!(zeros(&[])?.to_vec()?, [0.0]);
    assert_eq!(zeros(&[1; 8])?.to_vec()?, [0.0]);
    let empty = zeros(&[3, 0, 2])?;
    assert_eq!((empty.shape(), empty.is_empty()), (&[3, 0, 2][..], true));
    assert_eq!(empty.to_vec()?, []);
    assert_eq!(empty.read(0..0)?, []);

    let error = Error::Rank { argument: "shape", found: 9, wanted: 0..=8 };
    refused(zeros(&[1; 9]), &(error, "shape: 9 dimensions, where 0 to 8 are wanted".into()));
    refused(Tensor::from_slice(device, &[1.0f32; 5], [1, 2, 3]), &length("data", 5, 6));
    Ok(())
}

fn bounds(device: &Device) -> Outcome {
    let mut tensor = Tensor::from_slice(device, &[1.0f32; 6], [2, 3])?;
    let refusal = |argument, found: std::ops::Range<usize>| {
        let text = format!("{argument}: elements {found:?}, where elements of 0..6 are wanted");
        (Error::Bounds { argument, found, elements: 6 }, text)
    };
    #[expect(clippy::reversed_empty_ranges, reason = "it is refused")]
    for range in [0..7, 6..7, 7..7, 4..3, 0..usize::MAX] {
        refused(tensor.read(range.clone()), &refusal("range", range));
    }
    for (offset, elements, end) in [(0, 7, 7), (4, 3, 7), (7, 0, 7), (usize::MAX, 1, usize::MAX)] {
        let result = tensor.write(offset, &vec![2.0; elements]);
        refused(result, &refusal("data", offset..end));
    }
    refused(tensor.view().strided(1, &[2, 3], &[3, 1]), &refusal("view", 1..7));
    refused(tensor.view_mut().strided(1, &[2, 3], &[3, 1]), &refusal("view", 1..7));
    assert_eq!(tensor.to_vec()?, [1.0; 6]);
    Ok(())
}

fn views(device: &Device) -> Outcome {
    let tensor = Tensor::<f32>::zeros(device, [2, 3])?;
    let column = tensor.view().strided(1, &[2], &[3])?;
    assert_eq!((column.shape(), column.strides()), (&[2][..], &[3][..]));
    assert_eq!(column.device().to_string(), device.to_string());
    assert_eq!(tensor.view().reshape(&[3, 2])?.layout().shape(), [3, 2]);

    let error = Error::Rank { argument: "strides", found: 1, wanted: 2..=2 };
    let text = "strides: 1 dimensions, where 2 are wanted".into();
    refused(tensor.view().strided(0, &[2, 3], &[3]), &(error, text));
    let (argument, shape, strides) = ("view", vec![2], vec![3]);
    let error = Error::Strides { argument, shape, strides, wanted: "row-major order without gaps" };
    let text = "view: shape [2] with strides [3], where row-major order without gaps is wanted";
    refused(column.reshape(&[1, 2]), &(error, text.into()));
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    suite.both("copies", copies);
    suite.both("shapes", shapes);
    suite.both("bounds", bounds);
    suite.both("views", views);
    suite.run()
}
