use super::*;

/// 4 rows of 6 that count.
fn counted() -> Result<Tensor<f32>> {
    let data: Vec<f32> = (0..24u8).map(f32::from).collect();
    Tensor::from_slice(&Device::cpu(), &data, [4, 6])
}

/// What a view of memory on the CPU shows, in row-major order.
fn elements(view: View<'_, f32>) -> Vec<f32> {
    let dims = std::iter::zip(view.shape(), view.strides());
    let offsets = dims.fold(vec![0], |outer, (size, stride)| {
        let step = |start| (0..*size).map(move |index| start + index * stride);
        outer.into_iter().flat_map(step).collect()
    });
    // SAFETY: the tensor is on the CPU, borrowed, and has all elements of a view of it.
    offsets.into_iter().map(|offset| unsafe { view.as_ptr().add(offset).read() }).collect()
}

#[test]
fn views_show_the_tensor_s_elements() -> Result<()> {
    let tensor = counted()?;
    let whole = tensor.view();
    assert_eq!((whole.shape(), whole.strides()), (&[4, 6][..], &[6, 1][..]));
    assert_eq!(elements(whole), tensor.to_vec()?);
    let right = whole.strided(4, &[4, 2], &[6, 1])?;
    assert_eq!(elements(right), [4.0, 5.0, 10.0, 11.0, 16.0, 17.0, 22.0, 23.0]);
    // From the tensor's start, not the view's.
    assert_eq!(elements(right.strided(1, &[2, 3], &[0, 1])?), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    assert_eq!(elements(whole.strided(23, &[], &[])?), [23.0]);
    assert_eq!(elements(whole.strided(24, &[3, 0], &[9, 9])?), []);
    assert_eq!(elements(whole.strided(6, &[2, 6], &[6, 1])?.reshape(&[12])?)[11], 17.0);
    Ok(())
}

#[test]
fn views_write_their_own_elements() -> Result<()> {
    let mut tensor = counted()?;
    let mut expected = tensor.to_vec()?;
    let mut view = tensor.view_mut().strided(7, &[2, 2], &[6, 1])?;
    // SAFETY: the tensor is on the CPU and borrowed to write; it has 8 elements from the 7th on.
    unsafe { view.reborrow().as_mut_ptr().add(7).write(-1.0) };
    assert_eq!((view.shape(), view.strides()), (&[2, 2][..], &[6, 1][..]));
    expected[14] = -1.0;
    assert_eq!(tensor.to_vec()?, expected);
    Ok(())
}

#[test]
fn elements_outside_are_refused() -> Result<()> {
    let mut tensor = counted()?;
    for (offset, shape, strides, end) in [
        (5, [4, 2], [6, 1], 25),
        (0, [5, 6], [6, 1], 30),
        (25, [0, 6], [6, 1], 25),
        (1, [2, 1], [usize::MAX, 1], usize::MAX),
        (usize::MAX, [4, 6], [6, 1], usize::MAX),
    ] {
        let error = Error::Bounds { argument: "view", found: offset..end, elements: 24 };
        assert_eq!(tensor.view().strided(offset, &shape, &strides).err(), Some(error.clone()));
        assert_eq!(tensor.view_mut().strided(offset, &shape, &strides).err(), Some(error));
    }
    let error = Error::Rank { argument: "strides", found: 1, wanted: 2..=2 };
    assert_eq!(tensor.view().strided(0, &[4, 6], &[6]).err(), Some(error));
    Ok(())
}

#[test]
fn only_contiguous_views_are_reshaped() -> Result<()> {
    let mut tensor = counted()?;
    let whole = tensor.view();
    assert_eq!(whole.reshape(&[2, 3, 4])?.strides(), [12, 4, 1]);
    assert_eq!(whole.strided(0, &[4, 1], &[1, 7])?.reshape(&[2, 2])?.strides(), [2, 1]);
    let error = Error::Length { argument: "shape", found: 25, expected: 24 };
    assert_eq!(whole.reshape(&[5, 5]).err(), Some(error));
    let (shape, strides) = (vec![4, 3], vec![6, 1]);
    let wanted = "row-major order without gaps";
    let error = Error::Strides { argument: "view", shape, strides, wanted };
    assert_eq!(whole.strided(0, &[4, 3], &[6, 1])?.reshape(&[12]).err(), Some(error));
    assert_eq!(tensor.view_mut().reshape(&[24])?.shape(), [24]);
    Ok(())
}
