"""layer_norm and rms_norm of tensors, against torch's."""

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

from ferronorm.torch import layer_norm, rms_norm  # noqa: E402

PAIRS = [
    (torch.float64, torch.float64),
    (torch.float32, torch.float32),
    (torch.float16, torch.float16),
    (torch.float16, torch.float32),
    (torch.bfloat16, torch.bfloat16),
    (torch.bfloat16, torch.float32),
]
SHAPES = [
    ((4,), 1),
    ((1, 1), 1),
    ((5, 64), 1),
    ((3, 1023), 1),
    ((2, 3, 4096), 1),
    ((2, 3, 4, 5, 6), 3),
    ((6, 7, 8), 2),
    ((33, 2, 768), 1),
    ((2, 40000), 1),
]


def case(shape, dims, device, x_type, w_type):
    """x, weight, bias and the result's gradient, with a mean that is not 0."""
    make = torch.Generator(device).manual_seed(1)

    def random(size, dtype):
        return torch.randn(size, generator=make, device=device, dtype=torch.float32).to(dtype)

    x, dy = random(shape, x_type) + 0.5, random(shape, x_type)
    return x, random(shape[-dims:], w_type), random(shape[-dims:], w_type), dy


def results(function, tensors, dy):
    """The result of a function of tensors that may be None, and the tensors' gradients."""
    leaves = [t if t is None else t.detach().requires_grad_() for t in tensors]
    y = function(*leaves)
    y.backward(dy)
    return [y.detach(), *(t.grad for t in leaves if t is not None)]


def compare(found, wanted, dtype=None):
    """Found to its type's precision what was calculated in float64; sums by their size."""
    assert found[0].is_contiguous()
    for f, w in zip(found, wanted, strict=True):
        rtol = {
            torch.float64: 1e-12, torch.float32: 5e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2,
        }[dtype or f.dtype]  # fmt: skip
        size = w.abs().max().item() if w.numel() else 0
        torch.testing.assert_close(f.double(), w, rtol=rtol, atol=rtol * max(size, 1))


@pytest.mark.parametrize(("shape", "dims"), SHAPES)
@pytest.mark.parametrize(("x_type", "w_type"), PAIRS)
def test_layer_norm(device, shape, dims, x_type, w_type):
    *tensors, dy = case(shape, dims, device, x_type, w_type)
    normalized = shape[-dims:]
    found = results(lambda *t: layer_norm(t[0], normalized, *t[1:]), tensors, dy)
    exact = [t.double() for t in tensors]
    wanted = results(lambda *t: F.layer_norm(t[0], normalized, *t[1:]), exact, dy.double())
    assert [f.dtype for f in found] == [x_type, x_type, w_type, w_type]
    compare(found, wanted)


@pytest.mark.parametrize(("shape", "dims"), SHAPES)
@pytest.mark.parametrize(("x_type", "w_type"), PAIRS)
def test_rms_norm(device, shape, dims, x_type, w_type):
    x, w, _, dy = case(shape, dims, device, x_type, w_type)
    normalized = shape[-dims:]
    found = results(lambda x, w: rms_norm(x, normalized, w, 1e-6), [x, w], dy)
    exact = [x.double(), w.double()]
    wanted = results(lambda x, w: F.rms_norm(x, normalized, w, 1e-6), exact, dy.double())
    assert [f.dtype for f in found] == [x_type, x_type, w_type]
    compare(found, wanted)


@pytest.mark.parametrize("x_type", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_default_eps_of_rms_norm_is_that_of_torch(device, x_type):
    x = torch.full((3, 8), 1e-4, device=device, dtype=x_type)
    torch.testing.assert_close(rms_norm(x, (8,)), F.rms_norm(x, (8,)))


@pytest.mark.parametrize("w_type", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("x_type", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_rms_norm_takes_any_types(device, x_type, w_type):
    x, w, _, dy = case((5, 24), 1, device, x_type, w_type)
    found = results(lambda x, w: rms_norm(x, (24,), w, 1e-6), [x, w], dy)
    wanted = results(lambda x, w: F.rms_norm(x, (24,), w, 1e-6), [x, w], dy)
    assert [f.dtype for f in found] == [w.dtype for w in wanted]
    compare(found, [w.double() for w in wanted], x_type)


@pytest.mark.parametrize("given", ["", "w", "b", "wb"])
@pytest.mark.parametrize("eps", [1e-5, 1e-12, 0.3, 0, -0.1])
def test_options(device, given, eps):
    x, w, b, dy = case((6, 96), 1, device, torch.float32, torch.float32)
    tensors = [x, w if "w" in given else None, b if "b" in given else None]
    found = results(lambda *t: layer_norm(t[0], [96], *t[1:], eps), tensors, dy)
    exact = [None if t is None else t.double() for t in tensors]
    wanted = results(lambda *t: F.layer_norm(t[0], [96], *t[1:], eps), exact, dy.double())
    compare(found, wanted)


VIEWS = {
    "rows at a stride": lambda x: x[:, ::2],
    "columns of a wider matrix": lambda x: x[..., 8:40],
    "unaligned": lambda x: x[..., 1:32],
    "every other column": lambda x: x[..., ::2],
    "transposed": lambda x: x.transpose(-1, -2),
    "permuted": lambda x: x.permute(2, 0, 1, 3),
    "one row for all": lambda x: x[:1, :1, :1].expand_as(x),
    "one number for all": lambda x: x[:1, :1, :1, :1].expand_as(x),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "offset": lambda x: x.flatten()[3:-61].view(-1, 64),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("of", ["x", "dy"])
def test_views(device, view, of):
    base = case((2, 4, 6, 64), 1, device, torch.float32, torch.float32)[0]
    x = view(base)
    dy = x * 0.7 - 0.1
    x, dy = (x, dy.contiguous()) if of == "x" else (dy.contiguous(), x)
    w, b = torch.randn(2, 2 * x.shape[-1], device=device)[:, ::2]
    before = base.clone()
    normalized = x.shape[-1:]
    found = results(lambda *t: layer_norm(t[0], normalized, *t[1:]), [x, w, b], dy)
    exact = [t.double() for t in (x, w, b)]
    wanted = results(lambda *t: F.layer_norm(t[0], normalized, *t[1:]), exact, dy.double())
    compare(found, wanted)
    assert torch.equal(base, before)


def test_a_sum_has_an_expanded_gradient(device):
    tensors = case((7, 40), 1, device, torch.float32, torch.float32)[:3]
    leaves = [t.requires_grad_() for t in tensors]
    layer_norm(leaves[0], (40,), *leaves[1:]).sum().backward()
    torch.testing.assert_close(leaves[2].grad, torch.full((40,), 7.0, device=device))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0), (2, 0, 4)])
def test_empty(device, shape):
    *tensors, dy = case(shape, 1, device, torch.float32, torch.float32)
    found = results(lambda *t: layer_norm(t[0], shape[-1:], *t[1:]), tensors, dy)
    assert [f.shape for f in found] == [shape, shape, shape[-1:], shape[-1:]]
    assert all((f == 0).all() for f in found)


def test_nan_and_inf_spoil_their_rows_alone(device):
    x = case((4, 64), 1, device, torch.float32, torch.float32)[0]
    clean = layer_norm(x, (64,))
    x[1, 3], x[2, 5] = float("nan"), float("inf")
    y = layer_norm(x, (64,))
    assert y[[1, 2]].isnan().all()
    assert torch.equal(y[[0, 3]], clean[[0, 3]])


ERRORS = {
    "no shape": lambda f, x, w: f(x, ()),
    "another shape": lambda f, x, w: f(x, (5,)),
    "weight's shape": lambda f, x, w: f(x, (4,), w[:3]),
    "weight's rank": lambda f, x, w: f(x, (4,), x),
    "integers": lambda f, x, w: f(x.long(), (4,)),
    "booleans": lambda f, x, w: f(x.bool(), (4,)),
    "an integer for the shape": lambda f, x, w: f(x, 4),
    "no tensor": lambda f, x, w: f(None, (4,)),
    "a list": lambda f, x, w: f([1.0, 2.0], (2,)),
    "a weight elsewhere": lambda f, x, w: f(x, (4,), w.to("meta")),
}
ONLY_LAYER_NORM = {
    "too many dimensions": lambda f, x, w: f(x, (2, 3, 4)),
    "a scalar": lambda f, x, w: f(x[0, 0], (1,)),
    "bias's shape": lambda f, x, w: f(x, (4,), None, w[:3]),
    "complex": lambda f, x, w: f(x.cfloat(), (4,)),
    "types that do not go together": lambda f, x, w: f(x, (4,), w.half()),
    "types that differ": lambda f, x, w: f(x.half(), (4,), w.half(), w),
}


def kind_of_error(call, *arguments):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call(*arguments)
    return caught.type


@pytest.mark.parametrize("name", [*ERRORS, *ONLY_LAYER_NORM])
def test_errors_are_of_the_kind_of_torch(device, name):
    x, w = torch.ones(3, 4, device=device), torch.ones(4, device=device)
    call = {**ERRORS, **ONLY_LAYER_NORM}[name]
    assert kind_of_error(call, layer_norm, x, w) == kind_of_error(call, F.layer_norm, x, w)
    if name in ERRORS:
        assert kind_of_error(call, rms_norm, x, w) == kind_of_error(call, F.rms_norm, x, w)


def test_the_operator_checks_what_backward_is_given(device):
    x, w, b, dy = case((5, 8), 1, device, torch.float32, torch.float32)
    forward, backward = torch.ops.ferronorm.layer_norm, torch.ops.ferronorm.layer_norm_backward
    stats = forward(x, [8], w, b, 1e-5, False)[1]
    rest = (w, b, 1e-5, False, [True] * 3)
    for wrong in (dy[:3], dy.half()):
        with pytest.raises(RuntimeError, match="grad: "):
            backward(wrong, x, [8], stats, *rest)
    for wrong in (stats[:3], stats.double(), stats[:, :2]):
        with pytest.raises(RuntimeError, match="stats: "):
            backward(dy, x, [8], wrong, *rest)
    with pytest.raises(RuntimeError, match="Given normalized_shape"):
        backward(dy, x, [7], stats, *rest)


def test_rows_have_the_same_bits_in_every_batch_and_on_every_device(device):
    x, w, b, _ = case((300, 768), 1, device, torch.float16, torch.float32)
    y = layer_norm(x, (768,), w, b)
    assert torch.equal(layer_norm(x[17], (768,), w, b), y[17])
    on_cpu = layer_norm(x.cpu(), (768,), w.cpu(), b.cpu())
    assert torch.equal(on_cpu, y.cpu())


def test_a_weight_of_32_bits_keeps_the_type_of_x(device):
    x, w, b, _ = case((4, 32), 1, device, torch.bfloat16, torch.float32)
    assert layer_norm(x, (32,), w, b).dtype == torch.bfloat16
