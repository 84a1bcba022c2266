//! A matrix somewhere in a larger tensor, whose other elements are guards.

use ferronorm::{Device, Dtype, Result, Tensor, View, ViewMut};
use half::{bf16, f16};

use super::problem::{Place, Problem};

/// A storage type whose bits can be told.
pub trait Bits: Dtype {
    /// All bits set: a NaN that no arithmetic makes.
    const GUARD: Self;
    fn bits(self) -> u64;
}

macro_rules! bits {
    ($($type:ty, $all:expr;)*) => {$(
        impl Bits for $type {
            const GUARD: Self = <$type>::from_bits($all);

            fn bits(self) -> u64 {
                self.to_bits().into()
            }
        }
    )*};
}

bits! {
    f64, u64::MAX;
    f32, u32::MAX;
    f16, u16::MAX;
    bf16, u16::MAX;
}

/// Guards after the last row: more than a pack.
const TAIL: usize = 19;

/// A tensor that holds a matrix at a [`Place`].
pub struct Placed<E> {
    tensor: Tensor<E>,
    /// What was put there.
    memory: Vec<E>,
    place: Place,
    shape: Vec<usize>,
    strides: Vec<usize>,
    /// M and N.
    matrix: [usize; 2],
}

impl<E: Bits> Placed<E> {
    /// `data`, which is (M, N), at `place`.
    pub fn new(device: &Device, problem: &Problem, place: Place, data: &[E]) -> Result<Self> {
        let Place { offset, stride } = place;
        let matrix @ [rows, columns] = problem.shape();
        let span = if rows == 0 { 0 } else { (rows - 1) * stride + columns };
        let mut memory = vec![E::GUARD; offset + span + TAIL];
        for (row, data) in data.chunks(columns).enumerate() {
            memory[offset + row * stride..][..columns].copy_from_slice(data);
        }
        let shape = [&problem.leading[..], &problem.normalised].concat();
        let strides =
            strides(&problem.leading, stride).chain(strides(&problem.normalised, 1)).collect();
        let tensor = Tensor::from_slice(device, &memory, [memory.len()])?;
        Ok(Placed { tensor, memory, place, shape, strides, matrix })
    }

    /// A matrix of guards.
    pub fn empty(device: &Device, problem: &Problem, place: Place) -> Result<Self> {
        let [rows, columns] = problem.shape();
        Self::new(device, problem, place, &vec![E::GUARD; rows * columns])
    }

    pub fn view(&self) -> Result<View<'_, E>> {
        self.tensor.view().strided(self.place.offset, &self.shape, &self.strides)
    }

    pub fn view_mut(&mut self) -> Result<ViewMut<'_, E>> {
        self.tensor.view_mut().strided(self.place.offset, &self.shape, &self.strides)
    }

    /// The matrix, whose guards must be what they were.
    pub fn written(&self, what: &str) -> Result<Vec<E>> {
        let (mut found, mut matrix) = (self.tensor.to_vec()?, vec![]);
        let [rows, columns] = self.matrix;
        for row in 0..rows {
            let from = self.place.offset + row * self.place.stride;
            matrix.extend_from_slice(&found[from..][..columns]);
            found[from..][..columns].copy_from_slice(&self.memory[from..][..columns]);
        }
        assert_bits(&format!("{what}: guards"), &found, &self.memory);
        Ok(matrix)
    }

    /// The tensor was only read.
    pub fn assert_unchanged(&self, what: &str) -> Result<()> {
        assert_bits(what, &self.tensor.to_vec()?, &self.memory);
        Ok(())
    }
}

/// The strides of row-major order from `innermost` on. Where there is but one index, the stride
/// is never used, and may be anything.
fn strides(shape: &[usize], innermost: usize) -> impl Iterator<Item = usize> {
    (0..shape.len()).map(move |dim| match shape[dim] {
        1 => 12345,
        _ => innermost * shape[dim + 1..].iter().product::<usize>(),
    })
}

/// Bits are equal, those of NaNs too.
pub fn assert_bits<E: Bits>(what: &str, found: &[E], right: &[E]) {
    assert_eq!(found.len(), right.len(), "{what}: length");
    for (i, (found, right)) in found.iter().zip(right).enumerate() {
        let (found, right) = (found.bits(), right.bits());
        assert_eq!(found, right, "{what}[{i}]: bits {found:x}, where {right:x} are right");
    }
}
