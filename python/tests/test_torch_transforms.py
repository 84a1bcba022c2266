"""What stands between a call and the kernels: tracing, compilation, autocast, torch.func."""

import pytest

torch = pytest.importorskip("torch")
from torch import func  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from ferronorm.torch import layer_norm, rms_norm  # noqa: E402


def tensors(device, *shape, dtype=torch.float32):
    """x, weight, bias and a gradient."""
    make = torch.Generator(device).manual_seed(3)
    sizes = [shape, shape[-1:], shape[-1:], shape]
    return [torch.randn(s, generator=make, device=device).to(dtype) for s in sizes]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("given", ["", "w", "b", "wb"])
def test_opcheck(device, dtype, rms, given):
    x, w, b, dy = tensors(device, 3, 4, 16, dtype=dtype)
    x.requires_grad_()
    w = w.requires_grad_() if "w" in given else None
    b = b.requires_grad_() if "b" in given else None
    forward = torch.ops.ferronorm.layer_norm.default
    backward = torch.ops.ferronorm.layer_norm_backward.default
    arguments = (x, [16], w, b, 1e-5, rms)
    # Traced and not, the derivative of 16 bits is rounded at other places.
    tolerance = {} if dtype.itemsize > 2 else {"atol": 0.1, "rtol": 0.1}
    torch.library.opcheck(forward, arguments, **tolerance)
    stats = forward(*arguments)[1]
    for mask in ([True, w is not None, b is not None], [True, False, False]):
        torch.library.opcheck(backward, (dy, x, [16], stats, w, b, 1e-5, rms, mask), **tolerance)


def test_opcheck_of_split_rows_and_views(device):
    x, w, b, _ = tensors(device, 2, 40000)
    forward = torch.ops.ferronorm.layer_norm.default
    torch.library.opcheck(forward, (x.requires_grad_(), [40000], w, b, 1e-5, False))
    x = tensors(device, 6, 4, 16)[0].requires_grad_()
    torch.library.opcheck(forward, (x[::2], [16], None, None, 1e-5, False))
    torch.library.opcheck(forward, (x.mT, [4], None, None, 1e-5, False))


def step(norm, x, w, b, dy):
    x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
    y = norm(x, w, b)
    y.backward(dy)
    return y.detach(), x.grad, w.grad, b.grad


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(device, backend):
    def norm(x, w, b):
        return layer_norm(x.sin(), x.shape[-1:], w, b) * 2

    torch._dynamo.reset()
    compiled = torch.compile(norm, fullgraph=True, backend=backend)
    for rows in (5, 5, 7, 9):
        arguments = tensors(device, rows, 64)
        for found, right in zip(step(compiled, *arguments), step(norm, *arguments)):
            torch.testing.assert_close(found, right)


def test_compile_of_modules(device):
    from ferronorm.torch import LayerNorm, RMSNorm

    torch._dynamo.reset()
    model = torch.nn.Sequential(LayerNorm(32), RMSNorm(32)).to(device)
    x = tensors(device, 5, 32)[0]
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), model(x))


def test_export(device):
    class Norm(torch.nn.Module):
        def forward(self, x):
            return layer_norm(x, (32,))

    x = tensors(device, 5, 32)[0]
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(Norm(), (x,), dynamic_shapes=({0: rows},))
    assert "ferronorm.layer_norm" in str(program.graph)
    torch.testing.assert_close(program.module()(x[:3]), layer_norm(x[:3], (32,)))


def test_jit_trace(device):
    x = tensors(device, 5, 32)[0]
    traced = torch.jit.trace(lambda x: layer_norm(x, (32,)), (x,))
    assert "ferronorm::layer_norm" in str(traced.graph)
    torch.testing.assert_close(traced(2 * x), layer_norm(2 * x, (32,)))


@pytest.mark.parametrize("x_type", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])
def test_autocast_is_that_of_torch(device, x_type, low):
    x, w, b, _ = tensors(device, 5, 32, dtype=x_type)
    if device == "cuda" or x_type != torch.float64:
        w, b = w.float(), b.float()
    if x_type == torch.float64:
        w, b = w.double(), b.double()
    x.requires_grad_()
    with torch.autocast(device, low):
        found, right = layer_norm(x, (32,), w, b), F.layer_norm(x, (32,), w, b)
        found_rms, right_rms = rms_norm(x, (32,), w), F.rms_norm(x, (32,), w)
    for f, r in ((found, right), (found_rms, right_rms)):
        assert f.dtype == r.dtype
        torch.testing.assert_close(f, r, rtol=1e-2, atol=2e-2)
    gradient = torch.autograd.grad(found.sum(), x)[0]
    assert gradient.dtype == x_type


def test_compile_under_autocast(device):
    from ferronorm.torch import LayerNorm

    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), LayerNorm(32)).to(device)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = tensors(device, 5, 32)[0]
    with torch.autocast(device, torch.bfloat16):
        found, right = compiled(x), model(x)
    assert found.dtype == right.dtype
    torch.testing.assert_close(found, right)
    torch.testing.assert_close(compiled(x), model(x))


def test_meta_tensors():
    x = torch.empty(3, 4, device="meta", requires_grad=True)
    w = torch.empty(4, device="meta", requires_grad=True)
    y = layer_norm(x, (4,), w)
    assert y.is_meta
    assert y.shape == (3, 4)
    y.sum().backward()
    assert x.grad.shape == (3, 4)
    assert w.grad.shape == (4,)
    with pytest.raises(RuntimeError, match="Given normalized_shape"):
        layer_norm(x, (5,))


def test_modes_see_the_operator(device):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.seen.append(function)
            return function(*args, **(kwargs or {}))

    x, w, b, dy = tensors(device, 5, 32)
    with Recorder() as recorder:
        step(lambda x, w, b: layer_norm(x, (32,), w, b), x, w, b, dy)
    assert torch.ops.ferronorm.layer_norm.default in recorder.seen
    assert torch.ops.ferronorm.layer_norm_backward.default in recorder.seen


def test_a_view_to_be_negated(device):
    x = torch.randn(3, 8, device=device, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    torch.testing.assert_close(layer_norm(x, (8,)), F.layer_norm(x, (8,)))


IN_DIMS = [
    (0, None, None),
    (1, None, None),
    (0, 0, None),
    (0, None, 0),
    (2, 1, 0),
    (None, 0, 0),
    (None, None, 0),
]


def batched(t, dim, size=3):
    """The tensor with a batch dimension there."""
    if dim is None:
        return t
    scale = torch.arange(1, size + 1, device=t.device, dtype=t.dtype)
    return torch.stack([t * s for s in scale], dim)


@pytest.mark.parametrize("in_dims", IN_DIMS)
@pytest.mark.parametrize("shape", [(8,), (4, 8)])
def test_vmap(device, in_dims, shape):
    if len(shape) < (in_dims[0] or 0):
        return
    x, w, b, _ = (t.double() for t in tensors(device, *shape))
    arguments = [batched(t, dim) for t, dim in zip((x, w, b), in_dims)]

    def per_sample(norm):
        def gradients(x, w, b):
            loss = lambda *t: norm(t[0], (8,), *t[1:]).sin().sum()  # noqa: E731
            return norm(x, (8,), w, b), func.grad(loss, (0, 1, 2))(x, w, b)

        y, gradients = func.vmap(gradients, in_dims)(*arguments)
        return [y, *gradients]

    for found, right in zip(per_sample(layer_norm), per_sample(F.layer_norm), strict=True):
        torch.testing.assert_close(found, right)


def test_vmap_of_rms_norm_and_nested(device):
    x, w, _, _ = (t.double() for t in tensors(device, 2, 3, 4, 8))

    def per_sample(norm):
        gradient = func.grad(lambda x, w: norm(x, (8,), w, 1e-6).sin().sum(), (0, 1))
        return func.vmap(func.vmap(gradient, (0, None)), (0, None))(x, w)

    for found, right in zip(per_sample(rms_norm), per_sample(F.rms_norm), strict=True):
        torch.testing.assert_close(found, right)


def test_transforms_in_any_order(device):
    x, w = (t.double() for t in tensors(device, 3, 4, 8)[:2])

    def of(norm):
        batch = func.vmap(lambda x: norm(x, (8,), w))
        leaf = x.clone().requires_grad_()
        backward = torch.autograd.grad(batch(leaf).sin().sum(), leaf)[0]
        return [
            batch(x),
            backward,
            func.grad(lambda x: batch(x).sin().sum())(x),
            func.vmap(func.jacrev(lambda x: norm(x, (8,), w)))(x),
            func.vjp(lambda x: norm(x, (8,), w), x)[1](x)[0],
        ]

    torch.testing.assert_close(of(layer_norm), of(F.layer_norm))


def test_compile_of_vmap(device):
    x, w = (t.double() for t in tensors(device, 3, 4, 8)[:2])
    batch = func.vmap(lambda x, w: layer_norm(x, (8,), w), (0, None))
    torch._dynamo.reset()
    compiled = torch.compile(batch, backend="aot_eager", fullgraph=True)
    leaf = x.clone().requires_grad_()
    for found, right in ((compiled(x, w), batch(x, w)), (compiled(leaf, w), batch(leaf, w))):
        torch.testing.assert_close(found, right)
    found, right = (torch.autograd.grad(f(leaf, w).sin().sum(), leaf) for f in (compiled, batch))
    torch.testing.assert_close(found, right)


def test_jacobian_and_hessian(device):
    x, w, b, _ = (t.double() for t in tensors(device, 2, 5))
    for transform in (func.jacrev, lambda f: func.jacrev(func.jacrev(f))):
        found = transform(lambda x: layer_norm(x, (5,), w, b).pow(2))(x)
        right = transform(lambda x: F.layer_norm(x, (5,), w, b).pow(2))(x)
        torch.testing.assert_close(found, right)
