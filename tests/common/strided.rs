//! Runs on views: rows that lie apart, in tensors of NaN.

use ferronorm::{
    Device, Dtype, Gradients, LayerNorm, Outputs as Written, Result, Saved, Statistics, Target,
    Targets, Tensor, View, ViewMut,
};

use crate::common::{Inputs, Outputs, nans, poisoned};

/// Where the rows of a matrix lie in its tensor.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Elements before the first row.
    pub before: usize,
    /// Elements between one row and the next.
    pub between: usize,
}

impl Place {
    /// Rows without gaps.
    pub const WHOLE: Place = Place { before: 0, between: 0 };

    fn strides(self, [_, columns]: [usize; 2]) -> [usize; 2] {
        [columns + self.between, 1]
    }

    /// A tensor of NaN but for these rows.
    fn lay<E: Dtype>(self, device: &Device, rows: &[E], shape: [usize; 2]) -> Result<Tensor<E>> {
        let mut tensor = self.room(device, shape)?;
        for (row, data) in rows.chunks(shape[1].max(1)).enumerate() {
            tensor.write(self.before + row * self.strides(shape)[0], data)?;
        }
        Ok(tensor)
    }

    /// A tensor of NaN for such rows, with as much behind the last as between them.
    fn room<E: Dtype>(self, device: &Device, shape: [usize; 2]) -> Result<Tensor<E>> {
        poisoned(device, [self.before + shape[0] * self.strides(shape)[0]])
    }

    fn view<E: Dtype>(self, tensor: &Tensor<E>, shape: [usize; 2]) -> Result<View<'_, E>> {
        tensor.view().strided(self.before, &shape, &self.strides(shape))
    }

    fn view_mut<E: Dtype>(
        self,
        tensor: &mut Tensor<E>,
        shape: [usize; 2],
    ) -> Result<ViewMut<'_, E>> {
        tensor.view_mut().strided(self.before, &shape, &self.strides(shape))
    }

    /// The rows; all else must still be NaN.
    fn pick<E: Dtype>(self, what: &str, tensor: &Tensor<E>, shape: [usize; 2]) -> Result<Vec<E>> {
        let all = tensor.to_vec()?;
        let (before, rest) = all.split_at(self.before);
        let (mut rows, mut others) = (vec![], before.to_vec());
        for row in rest.chunks(self.strides(shape)[0].max(1)) {
            rows.extend(&row[..shape[1]]);
            others.extend(&row[shape[1]..]);
        }
        let written = others.iter().filter(|other| !other.to_f64().is_nan()).count();
        assert_eq!(written, 0, "{what}: elements written between the rows of {self:?}");
        Ok(rows)
    }
}

/// Forward and backward of `inputs`, which have no residual, with x, dy, y and dx at these places.
pub fn run_at<E: Dtype, P: Dtype>(
    layer: &LayerNorm,
    inputs: &Inputs<E, P>,
    places: [Place; 4],
) -> Result<Outputs<E, P>> {
    let (device, shape @ [rows, columns]) = (layer.device(), inputs.shape);
    let [x_place, dy_place, y_place, dx_place] = places;
    let vector = |data: &Vec<P>| Tensor::from_slice(device, data, [columns]);
    let w = inputs.w.as_ref().map(vector).transpose()?;
    let b = inputs.b.as_ref().map(vector).transpose()?;
    let x = x_place.lay(device, &inputs.x, shape)?;
    let dy = dy_place.lay(device, &inputs.dy, shape)?;
    let mut y = y_place.room(device, shape)?;
    let mut dx = dx_place.room(device, shape)?;

    let mut statistics = Statistics::new(device, rows)?;
    let arguments = ferronorm::Inputs {
        x: x_place.view(&x, shape)?,
        residual: None,
        w: w.as_ref(),
        b: b.as_ref(),
        eps: inputs.norm.eps,
    };
    let written =
        Written { y: y_place.view_mut(&mut y, shape)?, sum: None, statistics: &mut statistics };
    layer.forward_into(&arguments, written)?;
    let stats = statistics.to_vec()?;

    let saved = Saved::new(arguments, statistics);
    let Gradients { mut dw, mut db, .. } = Gradients::new(device, &saved)?;
    for gradient in [&mut dw, &mut db].into_iter().flatten() {
        gradient.copy_from_slice(&nans(columns))?;
    }
    let targets = Targets {
        dx: Some(Target::Overwrite(dx_place.view_mut(&mut dx, shape)?)),
        dw: dw.as_mut().map(Target::Overwrite),
        db: db.as_mut().map(Target::Overwrite),
    };
    layer.backward_into(&saved, dy_place.view(&dy, shape)?, targets)?;
    Ok(Outputs {
        y: y_place.pick("y", &y, shape)?,
        sum: None,
        stats,
        dx: dx_place.pick("dx", &dx, shape)?,
        dw: dw.map(|dw| dw.to_vec()).transpose()?,
        db: db.map(|db| db.to_vec()).transpose()?,
    })
}
