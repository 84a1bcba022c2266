//! Shapes and strides: how the elements of a tensor lie in its memory. Pure: no memory in it.

use std::fmt;
use std::iter::zip;

use crate::{Error, Result};

/// The most dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// A shape, and for each dimension the elements from one index to the next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    rank: u8,
    /// Zeros past the rank, so that layouts can be compared; strides too.
    shape: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
}

/// A layout seen as M rows of N elements that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Rows M.
    pub rows: usize,
    /// Columns N.
    pub columns: usize,
    /// Elements from the start of one row to the start of the next; N if there is no next row.
    pub stride: usize,
}

impl Layout {
    /// Row-major order without gaps. A shape of no dimensions has one element.
    ///
    /// # Errors
    ///
    /// [`Error::Rank`] for more than [`MAX_RANK`] dimensions, [`Error::TooLarge`].
    pub fn contiguous(shape: &[usize]) -> Result<Layout> {
        // Checks the shape; the strides come below.
        let mut layout = Layout::strided(shape, shape)?;
        let mut stride = 1;
        for (size, slot) in zip(shape, &mut layout.strides).rev() {
            *slot = stride;
            stride *= (*size).max(1);
        }
        Ok(layout)
    }

    /// Any strides, in elements. Several indices may share an element, as in a tensor that was
    /// expanded by a stride of 0.
    ///
    /// # Errors
    ///
    /// [`Error::Rank`] for more than [`MAX_RANK`] dimensions, or strides of another number of them;
    /// [`Error::TooLarge`].
    pub fn strided(shape: &[usize], strides: &[usize]) -> Result<Layout> {
        let rank = shape.len();
        if rank > MAX_RANK {
            return Err(Error::Rank { argument: "shape", found: rank, wanted: 0..=MAX_RANK });
        }
        if strides.len() != rank {
            let (argument, found) = ("strides", strides.len());
            return Err(Error::Rank { argument, found, wanted: rank..=rank });
        }
        // An allocation has at most isize::MAX bytes. A size of 0 does not excuse the others: so
        // the product of any of the sizes is a number, also M where N is 0.
        let all = shape.iter().try_fold(1, |all: usize, size| all.checked_mul((*size).max(1)));
        if all.is_none_or(|all| all > isize::MAX as usize / 8) {
            return Err(Error::TooLarge { found: shape.to_vec() });
        }
        let padded = |numbers: &[usize]| {
            let mut all = [0; MAX_RANK];
            all[..rank].copy_from_slice(numbers);
            all
        };
        Ok(Layout { rank: rank as u8, shape: padded(shape), strides: padded(strides) })
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape[..self.rank as usize]
    }

    /// Elements from one index to the next, for each dimension.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.rank as usize]
    }

    /// Elements of the shape.
    pub fn count(&self) -> usize {
        self.shape().iter().product()
    }

    /// Elements of memory from the first to one past the last; `None` if that is no `usize`.
    pub fn span(&self) -> Option<usize> {
        if self.count() == 0 {
            return Some(0);
        }
        zip(self.shape(), self.strides()).try_fold(1, |span: usize, (size, stride)| {
            span.checked_add((size - 1).checked_mul(*stride)?)
        })
    }

    /// Whether the elements follow each other in row-major order.
    pub fn is_contiguous(&self) -> bool {
        self.count() == 0 || collapse(self.shape(), self.strides(), 1) == Some(1)
    }

    /// The rows of a LayerNorm over the last `dims` dimensions, in row-major order of the others.
    ///
    /// The last `dims` dimensions must lie in row-major order without gaps, and one stride must
    /// lead from each row to the next. It may be 0. The strides of dimensions of one element do not
    /// matter, nor do any where there are no elements.
    ///
    /// # Errors
    ///
    /// [`Error::Rank`] if `dims` is 0 or there are fewer dimensions, [`Error::Strides`] if the
    /// elements lie in another way; both for `argument`.
    pub fn matrix(&self, dims: usize, argument: &'static str) -> Result<Matrix> {
        let rank = self.shape().len();
        if !(1..=MAX_RANK).contains(&dims) {
            return Err(Error::Rank { argument: "dims", found: dims, wanted: 1..=MAX_RANK });
        }
        if dims > rank {
            return Err(Error::Rank { argument, found: rank, wanted: dims..=MAX_RANK });
        }
        let (outer, inner) = self.shape().split_at(rank - dims);
        let (outer_strides, inner_strides) = self.strides().split_at(rank - dims);
        let (rows, columns) = (outer.iter().product(), inner.iter().product());
        if rows == 0 || columns == 0 {
            return Ok(Matrix { rows, columns, stride: columns });
        }
        if collapse(inner, inner_strides, 1) != Some(1) {
            let wanted = "row-major order without gaps in the normalised dimensions";
            return Err(self.refused(argument, wanted));
        }
        match collapse(outer, outer_strides, columns) {
            Some(stride) => Ok(Matrix { rows, columns, stride }),
            None => Err(self.refused(argument, "one stride from each row to the next")),
        }
    }

    /// Makes sure that no two rows of `matrix`, which is [`Layout::matrix`] of this layout, share
    /// an element: they are to be written.
    ///
    /// # Errors
    ///
    /// [`Error::Strides`] for `argument`.
    pub fn distinct_rows(&self, matrix: Matrix, argument: &'static str) -> Result<()> {
        if matrix.rows > 1 && matrix.stride < matrix.columns {
            return Err(self.refused(argument, "a stride from row to row of at least the columns"));
        }
        Ok(())
    }

    /// The error for strides that are of no use.
    pub(crate) fn refused(&self, argument: &'static str, wanted: &'static str) -> Error {
        let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
        Error::Strides { argument, shape, strides, wanted }
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Layout");
        f.field("shape", &self.shape()).field("strides", &self.strides()).finish()
    }
}

/// The stride at which all elements of these dimensions, of which none is of size 0, follow each
/// other in row-major order, if there is one; `single` if there is one element.
fn collapse(shape: &[usize], strides: &[usize], single: usize) -> Option<usize> {
    let mut dims = zip(shape, strides).rev().filter(|(size, _)| **size != 1);
    let Some((size, stride)) = dims.next() else { return Some(single) };
    // What the next dimension outwards has to step by.
    let mut whole = stride.checked_mul(*size);
    for (size, next) in dims {
        if whole != Some(*next) {
            return None;
        }
        whole = next.checked_mul(*size);
    }
    Some(*stride)
}

#[cfg(test)]
mod tests;
