"""LayerNorm for NVIDIA GPUs in pure Rust; the same kernels run on the CPU, bit for bit.

This package takes arrays of NumPy, CuPy and whatever speaks DLPack, ``__cuda_array_interface__`` or
the buffer protocol. ``ferronorm.torch`` is for PyTorch.

>>> import numpy as np
>>> import ferronorm
>>> ferronorm.layer_norm(np.float32([[1, 3]]), (2,), eps=0.0)
array([[-1.,  1.]], dtype=float32)
"""

from ferronorm._arrays import layer_norm, layer_norm_vjp, rms_norm, rms_norm_vjp
from ferronorm._ferronorm import __version__

__all__ = ["__version__", "layer_norm", "layer_norm_vjp", "rms_norm", "rms_norm_vjp"]
