"""Derivatives: against differences, against torch's, and as autograd may ask for them."""

import itertools

import pytest

torch = pytest.importorskip("torch")
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from ferronorm.torch import layer_norm, rms_norm  # noqa: E402


def tensors(device, *shape, dims=1, count=3):
    """x, weight and bias in float64, with gradients."""
    make = torch.Generator(device).manual_seed(2)
    sizes = [shape, shape[-dims:], shape[-dims:]][:count]
    return [
        torch.randn(size, generator=make, device=device, dtype=torch.float64, requires_grad=True)
        for size in sizes
    ]


CASES = {
    "layer_norm": (3, lambda x, w, b: layer_norm(x, w.shape, w, b)),
    "layer_norm, no bias": (2, lambda x, w: layer_norm(x, w.shape, w)),
    "layer_norm, no weight": (2, lambda x, b: layer_norm(x, b.shape, None, b)),
    "layer_norm, neither": (1, lambda x: layer_norm(x, x.shape[-1:], eps=0.1)),
    "rms_norm": (2, lambda x, w: rms_norm(x, w.shape, w, 1e-3)),
    "rms_norm, no weight": (1, lambda x: rms_norm(x, x.shape[-1:])),
    "of rows at a stride": (3, lambda x, w, b: layer_norm(x[::2], w.shape, w, b)),
    "of a transposed matrix": (2, lambda x, w: layer_norm(x.mT, x.shape[-2:-1], w[0].expand(4))),
}


@pytest.mark.parametrize(("count", "function"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_against_differences(device, count, function, check):
    assert check(function, tensors(device, 4, 6, count=count))


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize("shape", [(6,), (2, 3, 4), (1, 1), (2, 1, 5)])
@pytest.mark.parametrize("dims", [1, 2])
def test_shapes_against_differences(device, check, shape, dims):
    if dims <= len(shape):
        inputs = tensors(device, *shape, dims=dims)
        assert check(lambda x, w, b: layer_norm(x, w.shape, w, b, 0.2), inputs)


def test_forward_alone_is_differentiated_through_the_operator_too(device):
    x, w, b = tensors(device, 4, 6)
    operator = torch.ops.ferronorm.layer_norm
    assert gradcheck(lambda *t: operator(t[0], [6], t[1], t[2], 1e-5, False)[0], (x, w, b))
    y, stats = operator(x, [6], w, b, 1e-5, False)
    assert y.requires_grad
    assert not stats.requires_grad


def test_third_derivatives(device):
    def second(x, w):
        y = layer_norm(x, (6,), w)
        gradient = torch.autograd.grad((y**3).sum(), x, create_graph=True)[0]
        return torch.autograd.grad((gradient**2).sum(), (x, w), create_graph=True)

    assert gradcheck(second, tensors(device, 3, 6, count=2))


@pytest.mark.parametrize("wanted", list(itertools.product([False, True], repeat=3)))
def test_only_the_gradients_asked_for(device, wanted):
    inputs = [t.detach().requires_grad_(want) for t, want in zip(tensors(device, 5, 8), wanted)]
    y = layer_norm(inputs[0], (8,), *inputs[1:])
    assert y.requires_grad == any(wanted)
    if not any(wanted):
        return
    y.square().sum().backward()
    doubles = [t.detach().requires_grad_(want) for t, want in zip(inputs, wanted)]
    F.layer_norm(doubles[0], (8,), *doubles[1:]).square().sum().backward()
    for found, right in zip(inputs, doubles):
        assert (found.grad is None) == (right.grad is None)
        if right.grad is not None:
            torch.testing.assert_close(found.grad, right.grad)


def test_the_graph_may_be_kept_and_gradients_add_up(device):
    x, w, b = tensors(device, 5, 8)
    y = layer_norm(x, (8,), w, b).square().sum()
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_what_backward_needs_must_not_change(device):
    x, w, b = tensors(device, 5, 8)
    z = x * 2
    y = layer_norm(z, (8,), w, b).sum()
    z.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        y.backward()


def test_backward_needs_no_clean_scratch(device):
    """With torch's own means: new memory is filled with NaN, or the largest integers."""
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.utils.deterministic.fill_uninitialized_memory
        for shape in ((64, 48), (3, 40000)):
            x, w, b = (t.float().detach().requires_grad_() for t in tensors(device, *shape))
            layer_norm(x, shape[-1:], w, b).square().mean().backward()
            found = [t.grad for t in (x, w, b)]
            doubles = [t.detach().double().requires_grad_() for t in (x, w, b)]
            F.layer_norm(doubles[0], shape[-1:], *doubles[1:]).square().mean().backward()
            for gradient, right in zip(found, doubles):
                torch.testing.assert_close(gradient, right.grad.float(), rtol=1e-4, atol=1e-6)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(device, reentrant):
    x, w, b = tensors(device, 5, 8)

    def layer(x):
        return layer_norm(x * 3, (8,), w, b).sin()

    layer(x).sum().backward()
    right = [t.grad.clone() for t in (x, w, b)]
    for t in (x, w, b):
        t.grad = None
    checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
    for t, gradient in zip((x, w, b), right):
        assert torch.equal(t.grad, gradient)


def test_saved_tensors_may_be_packed(device):
    x, w, b = tensors(device, 5, 8)
    packed = []
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t) or t.clone(), lambda t: t
    )
    with hooks:
        y = layer_norm(x, (8,), w, b)
    y.sum().backward()
    assert len(packed) == 4, "x, the statistics, weight and bias"
    torch.testing.assert_close(b.grad, torch.full_like(b, 5))


def test_no_graph_without_gradients(device):
    x, w, b = tensors(device, 5, 8)
    with torch.no_grad():
        assert not layer_norm(x, (8,), w, b).requires_grad
    with torch.inference_mode():
        assert layer_norm(x, (8,), w, b).is_inference()


def test_forward_mode_is_refused_in_words(device):
    x = tensors(device, 5, 8)[0].detach()
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="jvp"):
        layer_norm(forward_ad.make_dual(x, x), (8,))


def test_several_threads_at_once(device):
    """Of Python, each with its forward and backward."""
    from concurrent.futures import ThreadPoolExecutor

    x, w, b = (t.detach() for t in tensors(device, 64, 96))

    def gradient(_):
        leaf = x.clone().requires_grad_()
        layer_norm(leaf, (96,), w, b).pow(3).sum().backward()
        return leaf.grad

    with ThreadPoolExecutor(8) as pool:
        first, *others = pool.map(gradient, range(32))
    assert all(torch.equal(first, other) for other in others)
