"""NumPy arrays, and what NumPy can take, on the CPU. CuPy's, where there is a GPU."""

import array
import subprocess
import sys

import numpy as np
import pytest

import ferronorm


def reference(x, dims, weight=None, bias=None, eps=1e-5, rms=False, dy=None):
    """In float64: the result, and with ``dy`` the gradients of x, weight and bias."""
    x = np.asarray(x, np.float64)
    row, rows = tuple(range(-dims, 0)), tuple(range(x.ndim - dims))
    mean = 0 if rms else x.mean(row, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(row, keepdims=True) + eps)
    x_hat = (x - mean) * rstd
    w = 1 if weight is None else np.asarray(weight, np.float64)
    b = 0 if bias is None else np.asarray(bias, np.float64)
    if dy is None:
        return x_hat * w + b
    dy = np.asarray(dy, np.float64)
    wdy = w * dy
    c2 = 0 if rms else wdy.mean(row, keepdims=True)
    dx = (wdy - x_hat * (wdy * x_hat).mean(row, keepdims=True) - c2) * rstd
    return dx, (dy * x_hat).sum(rows), dy.sum(rows)


ALLOWED = {"float64": 1e-13, "float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}


def close(found, wanted, dtype=None):
    """Whether the error is within the type's, beside the largest element."""
    allowed = ALLOWED[str(dtype or found.dtype)]
    found = np.asarray(found, np.float64)
    assert found.shape == wanted.shape
    scale = max(1.0, np.abs(wanted).max(initial=0.0))
    error = np.abs(found - wanted).max(initial=0.0) / scale
    assert error <= allowed, f"{error} > {allowed}"


def random(*shape, dtype="float32", seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(("x_type", "w_type"), ferronorm._ferronorm.TYPES)
@pytest.mark.parametrize("rms", [False, True])
def test_each_pair_of_types(x_type, w_type, rms):
    if x_type == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
        x_type = ml_dtypes.bfloat16
        w_type = ml_dtypes.bfloat16 if w_type == "bfloat16" else w_type
    x, dy = random(2, 5, 40, dtype=x_type), random(2, 5, 40, dtype=x_type, seed=1)
    w, b = random(40, dtype=w_type, seed=2), random(40, dtype=w_type, seed=3)
    if rms:
        y, pullback = ferronorm.rms_norm_vjp(x, 40, w)
        gradients, b = pullback(dy), None
    else:
        y, pullback = ferronorm.layer_norm_vjp(x, 40, w, b)
        gradients = pullback(dy)
    assert y.dtype == x.dtype
    close(y, reference(x, 1, w, b, rms=rms))
    for gradient, like, wanted in zip(gradients, (x, w, b), reference(x, 1, w, b, rms=rms, dy=dy)):
        assert gradient.dtype == like.dtype
        close(gradient, wanted, x.dtype)


@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (7,), (2, 3, 4, 5), (130, 1023), (2, 20000)])
@pytest.mark.parametrize("dims", [1, 2])
def test_shapes(shape, dims):
    if dims > len(shape):
        return
    x, dy = random(*shape), random(*shape, seed=1)
    w, b = random(*shape[-dims:], seed=2), random(*shape[-dims:], seed=3)
    y, pullback = ferronorm.layer_norm_vjp(x, shape[-dims:], w, b)
    close(y, reference(x, dims, w, b))
    for gradient, wanted in zip(pullback(dy), reference(x, dims, w, b, dy=dy)):
        close(gradient, wanted)


def test_weight_and_bias_may_be_absent():
    x, dy, w = random(6, 9), random(6, 9, seed=1), random(9, seed=2)
    for weight, bias in ((None, None), (w, None), (None, w)):
        y, pullback = ferronorm.layer_norm_vjp(x, (9,), weight, bias, eps=0.1)
        close(y, reference(x, 1, weight, bias, eps=0.1))
        dx, dw, db = pullback(dy)
        wanted = reference(x, 1, weight, bias, eps=0.1, dy=dy)
        close(dx, wanted[0])
        for found, right, vector in ((dw, wanted[1], weight), (db, wanted[2], bias)):
            assert (found is None) == (vector is None)
            if found is not None:
                close(found, right)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:, ::2],
        lambda x: x[..., 3:15],
        lambda x: x[::-1],
        lambda x: x[..., ::-1],
        lambda x: x.transpose(2, 0, 1),
        lambda x: np.broadcast_to(x[:1, :1], x.shape),
        lambda x: x.view(np.uint8).reshape(-1)[4:-12].view(np.float32).reshape(-1, 4),
        lambda x: np.frombuffer(b"\0" + x.tobytes(), np.float32, offset=1).reshape(x.shape),
    ],
)
def test_views(view):
    x = view(random(4, 6, 16))
    columns = x.shape[-1]
    dy = np.broadcast_to(np.float32(0.5), x.shape)
    w = random(2 * columns, seed=2)[::2]
    before = x.copy()
    y, pullback = ferronorm.layer_norm_vjp(x, columns, w)
    close(y, reference(x, 1, w))
    close(pullback(dy)[0], reference(x, 1, w, dy=dy)[0])
    assert (x == before).all()


def test_empty():
    y, pullback = ferronorm.layer_norm_vjp(random(0, 4), 4, random(4), random(4))
    dx, dw, db = pullback(random(0, 4))
    assert y.shape == dx.shape == (0, 4)
    assert (dw == 0).all()
    assert (db == 0).all()
    assert ferronorm.layer_norm(random(3, 0), 0).shape == (3, 0)
    assert ferronorm.layer_norm_vjp(random(3, 0), 0, random(0))[1](random(3, 0))[1].shape == (0,)


class Exporter:
    """DLPack's protocol and no more."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


@pytest.mark.parametrize("wrap", [Exporter, memoryview])
def test_dlpack_and_buffers(wrap):
    x, w = random(3, 8), random(8, seed=1)
    y = ferronorm.layer_norm(wrap(x), 8, wrap(w), array.array("f", w))
    assert isinstance(y, np.ndarray)
    assert (y == ferronorm.layer_norm(x, 8, w, w)).all()


def test_dlpack_of_torch():
    torch = pytest.importorskip("torch")
    x = random(3, 8)
    assert (ferronorm.layer_norm(torch.from_numpy(x), 8) == ferronorm.layer_norm(x, 8)).all()


def test_cupy():
    cupy = pytest.importorskip("cupy", exc_type=ImportError)
    if not cupy.is_available():
        pytest.skip("no GPU")
    x, dy, w, b = random(64, 1000), random(64, 1000, seed=1), random(1000), random(1000, seed=2)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        on_gpu = [cupy.asarray(a) for a in (x, dy, w, b)]
        y, pullback = ferronorm.layer_norm_vjp(on_gpu[0], 1000, *on_gpu[2:])
        gradients = pullback(Exporter(on_gpu[1]))
        stream.synchronize()
    y_cpu, pullback = ferronorm.layer_norm_vjp(x, 1000, w, b)
    assert isinstance(y, cupy.ndarray)
    assert (y.get() == y_cpu).all(), "the same bits"
    assert (gradients[0].get() == pullback(dy)[0]).all(), "the same bits"
    for found, wanted in zip(gradients[1:], reference(x, 1, w, b, dy=dy)[1:]):
        close(found.get(), wanted)
    with pytest.raises(ValueError, match="weight: on device -1, where x is on 0"):
        ferronorm.layer_norm(on_gpu[0], 1000, w)


def test_the_same_bits_in_every_batch():
    x = random(300, 768)
    y = ferronorm.layer_norm(x, 768)
    assert (ferronorm.layer_norm(x[17], 768) == y[17]).all()


@pytest.mark.parametrize(
    ("error", "text", "call"),
    [
        (ValueError, "x: shape", lambda x, w: ferronorm.layer_norm(x, 5)),
        (ValueError, "x: shape", lambda x, w: ferronorm.layer_norm(x, ())),
        (ValueError, "x: shape", lambda x, w: ferronorm.layer_norm(x, (2, 3, 4))),
        (ValueError, "weight: shape", lambda x, w: ferronorm.layer_norm(x, 4, w[:3])),
        (ValueError, "bias: shape", lambda x, w: ferronorm.layer_norm(x, 4, None, x)),
        (ValueError, "eps: -1", lambda x, w: ferronorm.layer_norm(x, 4, eps=-1.0)),
        (ValueError, "eps: nan", lambda x, w: ferronorm.rms_norm(x, 4, eps=float("nan"))),
        (TypeError, "x is int", lambda x, w: ferronorm.layer_norm(x.astype(int), 4)),
        (TypeError, "x is complex", lambda x, w: ferronorm.layer_norm(x.astype(complex), 4)),
        (TypeError, "are float64", lambda x, w: ferronorm.layer_norm(x, 4, w.astype(float))),
        (TypeError, "bias: not", lambda x, w: ferronorm.layer_norm(x, 4, w, w.astype(float))),
        (TypeError, "byte order", lambda x, w: ferronorm.layer_norm(x.astype(">f4"), 4)),
        (TypeError, "integer", lambda x, w: ferronorm.layer_norm(x, 4.0)),
        (ValueError, "dy: float32", lambda x, w: ferronorm.layer_norm_vjp(x, 4)[1](w)),
        (
            ValueError,
            "dy: float64",
            lambda x, w: ferronorm.layer_norm_vjp(x, 4)[1](x.astype(float)),
        ),
    ],
)
def test_wrong_arguments(error, text, call):
    with pytest.raises(error, match=text):
        call(random(3, 4), random(4))


def test_without_a_gpu_asking_for_one_is_an_error():
    with pytest.raises(RuntimeError, match=r"no CUDA driver library|device 63"):
        ferronorm._ferronorm.Forward(63, 1, 1, 4, 1e-5, False, 0, 4, 0, 0, 0, 0)


def test_scratch_is_checked():
    x, y, stats = random(1, 20000), random(1, 20000), random(1, 4)
    address = [a.ctypes.data for a in (x, y, stats)]
    call = ferronorm._ferronorm.Forward(
        -1, 1, 1, 20000, 1e-5, False, address[0], 20000, 0, 0, *address[1:]
    )
    assert call.scratch > 0, "rows of this length are split"
    with pytest.raises(ValueError, match="scratch: no memory"):
        call.launch(0, 0)
    with pytest.raises(ValueError, match="scratch: at"):
        call.launch(0, 8)


def test_a_forked_process_has_threads_of_its_own():
    program = """
import os, signal, sys
import numpy as np
import ferronorm

x = np.ones((512, 1024), np.float32)
ferronorm.layer_norm(x, 1024)
child = os.fork()
if child == 0:
    signal.alarm(20)
    ferronorm.layer_norm(x, 1024)
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 7
