"""LayerNorm and RMSNorm of arrays, without torch.

An array on a GPU is taken as one of CuPy, any other as one of NumPy: both do so without a copy, and
CuPy waits for the streams that the protocols name. Results are arrays of the same kind.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import inf, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ferronorm import _ferronorm
from ferronorm._layout import row_stride

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_TYPES = {pair: place for place, pair in enumerate(_ferronorm.TYPES)}
_DLPACK_CUDA = (2, 13)  # kDLCUDA and kDLCUDAManaged

Gradients = tuple[Any, Any, Any]


def layer_norm(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    """Normalises the last dimensions of an array, whose sizes are ``normalized_shape``.

    ``weight`` and ``bias`` are of the array's type, or float32 for one of 16 bits.
    """
    return _Norm(x, normalized_shape, weight, bias, eps, rms=False).forward()[0]


def layer_norm_vjp(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> tuple[Any, Callable[[Any], Gradients]]:
    """:func:`layer_norm`, and the function from the gradient of its result to those of x, weight
    and bias (``None`` for what is absent). The arrays must not change until that is called.
    """
    norm = _Norm(x, normalized_shape, weight, bias, eps, rms=False)
    y, stats = norm.forward()
    return y, lambda dy: norm.backward(dy, stats)


def rms_norm(
    x: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float = 1e-5
) -> Any:
    """As :func:`layer_norm`, with a mean of 0: x / sqrt(mean(x * x) + eps) * weight."""
    return _Norm(x, normalized_shape, weight, None, eps, rms=True).forward()[0]


def rms_norm_vjp(
    x: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float = 1e-5
) -> tuple[Any, Callable[[Any], tuple[Any, Any]]]:
    """:func:`rms_norm`, and the function from its result's gradient to those of x and weight."""
    norm = _Norm(x, normalized_shape, weight, None, eps, rms=True)
    y, stats = norm.forward()
    return y, lambda dy: norm.backward(dy, stats)[:2]


class _Place(NamedTuple):
    """Where an array lives: its library, and its device by number (-1: the CPU)."""

    library: Any
    device: int

    def entered(self) -> AbstractContextManager[Any]:
        on_cpu = self.device < 0
        return nullcontext() if on_cpu else self.library.cuda.Device(self.device)

    def launch(self, call: _ferronorm.Forward | _ferronorm.Backward) -> None:
        """Launches on the current stream, with scratch memory if the call needs it."""
        stream = 0 if self.device < 0 else self.library.cuda.get_current_stream().ptr
        scratch = self.library.empty(call.scratch, "uint8")
        call.launch(stream, _address(scratch) if call.scratch else 0)


class _Norm:
    """A norm of given arguments, which are checked."""

    def __init__(
        self,
        x: Any,
        normalized_shape: int | Sequence[int],
        weight: Any,
        bias: Any,
        eps: float,
        rms: bool,
    ) -> None:
        shape = _shape(normalized_shape)
        if not 0 <= eps < inf:
            raise ValueError(f"eps: {eps}, where a finite number of at least 0 is wanted")
        x, self.place = _import("x", x, None)
        self.dims, self.columns, self.eps, self.rms = len(shape), prod(shape), eps, rms
        if not shape or x.shape[-self.dims :] != shape:
            raise ValueError(f"x: shape {x.shape}, where (*, {str(shape)[1:-1]}) is wanted")
        self.vectors = [
            None if vector is None else self._vector(name, vector, shape)
            for name, vector in (("weight", weight), ("bias", bias))
        ]
        dtype = next((vector.dtype.name for vector in self.vectors if vector is not None), None)
        if any(vector is not None and vector.dtype.name != dtype for vector in self.vectors):
            raise TypeError(f"bias: not of the weight's type, {dtype}")
        types = x.dtype.name, dtype or x.dtype.name
        if types not in _TYPES:
            raise TypeError(
                f"x is {types[0]}, weight and bias are {types[1]}: wanted are float64, float32, "
                "float16 or bfloat16 for all, or float32 beside one of 16 bits"
            )
        self.types = _TYPES[types]
        self.x, self.x_stride = self._rows(x)

    def forward(self) -> tuple[Any, Any]:
        """The result, and the rows' statistics for backward."""
        library = self.place.library
        with self.place.entered():
            y = library.empty(self.x.shape, self.x.dtype)
            real = "float64" if self.x.dtype.name == "float64" else "float32"
            stats = library.empty((self._count(), 4), real)
            if self.columns:
                call = _ferronorm.Forward(
                    *self._common(), *map(_address, (*self.vectors, y, stats))
                )
                self.place.launch(call)
        return y, stats

    def backward(self, dy: Any, stats: Any) -> Gradients:
        """The gradients of x, weight and bias."""
        dy, _ = _import("dy", dy, self.place)
        if dy.shape != self.x.shape or dy.dtype != self.x.dtype:
            raise ValueError(
                f"dy: {dy.dtype} of shape {dy.shape}, where {self.x.dtype} of shape "
                f"{self.x.shape} is wanted"
            )
        library = self.place.library
        with self.place.entered():
            dy, dy_stride = self._rows(dy)
            dx = library.empty(self.x.shape, self.x.dtype)
            dw, db = (
                None if vector is None else library.empty(vector.shape, vector.dtype)
                for vector in self.vectors
            )
            if self.columns:
                weight, dy_address, *written = map(_address, (self.vectors[0], dy, dx, dw, db))
                call = _ferronorm.Backward(
                    *self._common(), weight, _address(stats), dy_address, dy_stride, *written
                )
                self.place.launch(call)
        return dx, dw, db

    def _count(self) -> int:
        return self.x.size // self.columns if self.columns else 0

    def _common(self) -> tuple[Any, ...]:
        """The first arguments of both directions."""
        device, rows, x = self.place.device, self._count(), _address(self.x)
        return device, self.types, rows, self.columns, self.eps, self.rms, x, self.x_stride

    def _rows(self, x: Any) -> tuple[Any, int]:
        """The array, copied if the kernels cannot take it as it lies, and its row stride."""
        size = x.dtype.itemsize
        if _address(x) % size == 0 and all(stride % size == 0 for stride in x.strides):
            stride = row_stride(x.shape, [stride // size for stride in x.strides], self.dims)
            if stride is not None:
                return x, stride
        with self.place.entered():
            return x.copy(order="C"), self.columns

    def _vector(self, name: str, vector: Any, shape: tuple[int, ...]) -> Any:
        vector, _ = _import(name, vector, self.place)
        if vector.shape != shape:
            raise ValueError(f"{name}: shape {vector.shape}, where {shape} is wanted")
        aligned = _address(vector) % vector.dtype.itemsize == 0
        if vector.flags.c_contiguous and aligned:
            return vector
        with self.place.entered():
            return vector.copy(order="C")


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, Sequence):
        return tuple(map(operator.index, normalized_shape))
    return (operator.index(normalized_shape),)


def _import(name: str, x: Any, wanted: _Place | None) -> tuple[Any, _Place]:
    """The array as one of NumPy or CuPy, and where it lives, which must be as wanted."""
    import numpy as np

    on_gpu = hasattr(x, "__cuda_array_interface__")
    if not on_gpu and hasattr(x, "__dlpack_device__"):
        on_gpu = x.__dlpack_device__()[0] in _DLPACK_CUDA
    if on_gpu:
        import cupy

        if not isinstance(x, cupy.ndarray):
            x = cupy.from_dlpack(x) if hasattr(x, "__dlpack__") else cupy.asarray(x)
        place = _Place(cupy, x.device.id)
    else:
        if not isinstance(x, np.ndarray):
            x = np.from_dlpack(x) if hasattr(x, "__dlpack__") else np.asarray(x)
        place = _Place(np, -1)
    if not x.dtype.isnative:
        raise TypeError(f"{name}: {x.dtype} is not in this machine's byte order")
    if wanted is not None and place != wanted:
        raise ValueError(f"{name}: on device {place.device}, where x is on {wanted.device}")
    return x, place


def _address(x: Any) -> int:
    """Where the first element lies; 0 for none."""
    if x is None:
        return 0
    return x.ctypes.data if hasattr(x, "ctypes") else x.data.ptr
