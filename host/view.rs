//! Views: some elements of a tensor, at strides.

use crate::layout::Layout;
use crate::{Device, Dtype, Error, Result, Tensor};

/// Elements of a borrowed tensor, to read: a first one, and a [`Layout`] from there.
pub struct View<'a, E> {
    tensor: &'a Tensor<E>,
    offset: usize,
    layout: Layout,
}

impl<E> Clone for View<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for View<'_, E> {}

/// Elements of a borrowed tensor, to write. The tensor's other elements stay as they are.
pub struct ViewMut<'a, E> {
    tensor: &'a mut Tensor<E>,
    offset: usize,
    layout: Layout,
}

/// The whole tensor.
impl<'a, E> From<&'a Tensor<E>> for View<'a, E> {
    fn from(tensor: &'a Tensor<E>) -> Self {
        View { tensor, offset: 0, layout: *tensor.layout() }
    }
}

/// The whole tensor.
impl<'a, E> From<&'a mut Tensor<E>> for ViewMut<'a, E> {
    fn from(tensor: &'a mut Tensor<E>) -> Self {
        let layout = *tensor.layout();
        ViewMut { tensor, offset: 0, layout }
    }
}

impl<'a, E: Dtype> View<'a, E> {
    /// The tensor's elements from `offset` on, at `strides`, as `torch.as_strided` gives them: all
    /// are counted in elements, and from the start of the tensor, whatever this view shows of it.
    ///
    /// ```
    /// # use ferronorm::{Device, Tensor};
    /// # fn main() -> ferronorm::Result<()> {
    /// let x = Tensor::<f32>::zeros(&Device::cpu(), [8, 6])?;
    /// let right_half = x.view().strided(3, &[8, 3], &[6, 1])?;
    /// let one_row_for_all = x.view().strided(0, &[8, 6], &[0, 1])?;
    /// assert!(x.view().strided(4, &[8, 3], &[6, 1]).is_err(), "one more than there are");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Bounds`] if an element would be outside of the tensor, [`Error::Rank`],
    /// [`Error::TooLarge`].
    pub fn strided(self, offset: usize, shape: &[usize], strides: &[usize]) -> Result<View<'a, E>> {
        let layout = strided(self.tensor, offset, shape, strides)?;
        Ok(View { offset, layout, ..self })
    }

    /// The same elements in another shape, if they follow each other in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::Strides`] if they do not, [`Error::Length`] if the shape has more or fewer
    /// elements, [`Error::Rank`], [`Error::TooLarge`].
    pub fn reshape(self, shape: &[usize]) -> Result<View<'a, E>> {
        Ok(View { layout: reshaped(&self.layout, shape)?, ..self })
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Elements from one index to the next, for each dimension.
    pub fn strides(&self) -> &[usize] {
        self.layout.strides()
    }

    /// Both.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where the tensor lives.
    pub fn device(&self) -> &'a Device {
        self.tensor.device()
    }

    /// The first element, for a kernel. All elements of the layout from here are the tensor's.
    pub(crate) fn as_ptr(&self) -> *const E {
        self.tensor.as_ptr().wrapping_add(self.offset)
    }
}

impl<'a, E: Dtype> ViewMut<'a, E> {
    /// As [`View::strided`].
    ///
    /// # Errors
    ///
    /// As [`View::strided`].
    pub fn strided(
        self,
        offset: usize,
        shape: &[usize],
        strides: &[usize],
    ) -> Result<ViewMut<'a, E>> {
        let layout = strided(self.tensor, offset, shape, strides)?;
        Ok(ViewMut { offset, layout, ..self })
    }

    /// As [`View::reshape`].
    ///
    /// # Errors
    ///
    /// As [`View::reshape`].
    pub fn reshape(self, shape: &[usize]) -> Result<ViewMut<'a, E>> {
        Ok(ViewMut { layout: reshaped(&self.layout, shape)?, ..self })
    }

    /// The same view for a shorter time, so that this one can be used again.
    pub fn reborrow(&mut self) -> ViewMut<'_, E> {
        ViewMut { tensor: self.tensor, offset: self.offset, layout: self.layout }
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Elements from one index to the next, for each dimension.
    pub fn strides(&self) -> &[usize] {
        self.layout.strides()
    }

    /// Both.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where the tensor lives.
    pub fn device(&self) -> &Device {
        self.tensor.device()
    }

    /// As [`View::as_ptr`], to write.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut E {
        self.tensor.as_mut_ptr().wrapping_add(self.offset)
    }
}

/// A layout that reaches elements of `tensor` alone when it starts at `offset`.
fn strided<E: Dtype>(
    tensor: &Tensor<E>,
    offset: usize,
    shape: &[usize],
    strides: &[usize],
) -> Result<Layout> {
    let layout = Layout::strided(shape, strides)?;
    let end = layout.span().and_then(|span| offset.checked_add(span)).unwrap_or(usize::MAX);
    if end > tensor.len() {
        let elements = tensor.len();
        return Err(Error::Bounds { argument: "view", found: offset..end, elements });
    }
    Ok(layout)
}

fn reshaped(layout: &Layout, shape: &[usize]) -> Result<Layout> {
    if !layout.is_contiguous() {
        return Err(layout.refused("view", "row-major order without gaps"));
    }
    let reshaped = Layout::contiguous(shape)?;
    let (found, expected) = (reshaped.count(), layout.count());
    if found == expected {
        Ok(reshaped)
    } else {
        Err(Error::Length { argument: "shape", found, expected })
    }
}

#[cfg(test)]
mod tests;
