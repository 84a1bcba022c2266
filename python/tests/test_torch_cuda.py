"""Streams, devices, CUDA graphs and memory. All of it needs a GPU."""

import pytest

torch = pytest.importorskip("torch")
from ferronorm.torch import LayerNorm, layer_norm  # noqa: E402

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

SHAPES = [(512, 1024), (3, 40000)]


def tensors(*shape, device="cuda", dtype=torch.float16):
    """x, weight and bias with gradients, and the result's gradient."""
    make = torch.Generator(device).manual_seed(6)
    sizes = [shape, shape[-1:], shape[-1:], shape]
    *leaves, dy = (torch.randn(s, generator=make, device=device).to(dtype) for s in sizes)
    return [*(t.requires_grad_() for t in leaves), dy]


def step(x, w, b, dy):
    """The result and all gradients."""
    y = layer_norm(x, x.shape[-1:], w, b)
    return [y.detach(), *torch.autograd.grad(y, (x, w, b), dy)]


def equal(found, wanted):
    return all(torch.equal(f, w) for f, w in zip(found, wanted, strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_runs_on_the_current_stream_and_waits_for_nobody(shape):
    x, w, b, dy = tensors(*shape)
    wanted = step(x, w, b, dy)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        late = torch.full_like(x, float("nan"))
        torch.cuda._sleep(200_000_000)
        late.copy_(x.detach())
        found = step(late.requires_grad_(), w, b, dy)
        done = stream.record_event()
    assert not done.query(), "the host is ahead of the device"
    stream.synchronize()
    assert equal(found, wanted)


def test_streams_at_once():
    x, w, b, dy = tensors(512, 4096)
    wanted = step(x, w, b, dy)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for _ in range(20):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(step(x, w, b, dy))
    torch.cuda.synchronize()
    assert all(equal(found, wanted) for found in results)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_another_device_than_the_current_one():
    first, second = tensors(64, 1024, device="cuda:0"), tensors(64, 1024, device="cuda:1")
    for there, here in zip(second, first):
        there.data.copy_(here.data)
    wanted = step(*first)
    found = step(*second)
    assert torch.cuda.current_device() == 0
    assert all(t.device.index == 1 for t in found)
    torch.cuda.synchronize(1)
    assert equal([t.to("cuda:0") for t in found], wanted)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_graph_of_forward_and_backward(shape):
    x, w, b, dy = tensors(*shape)
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        step(x, w, b, dy)
    warm.synchronize()
    graphs = []
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = step(x, w, b, dy)
        graphs.append((graph, results))
    with torch.no_grad():
        x.mul_(-0.5)
    wanted = step(x, w, b, dy)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in graphs]
    for _ in range(5):
        for stream, (graph, _) in zip(streams, graphs):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    assert all(equal(results, wanted) for _, results in graphs)


def test_graphed_callables():
    norm = LayerNorm(1024, device="cuda")
    x = torch.randn(64, 1024, device="cuda", requires_grad=True)
    wanted = torch.autograd.grad(norm(x).square().sum(), [x, *norm.parameters()])
    graphed = torch.cuda.make_graphed_callables(LayerNorm(1024, device="cuda"), (x,))
    found = torch.autograd.grad(graphed(x).square().sum(), [x, *graphed.parameters()])
    assert equal(found, wanted)


def test_compile_with_graphs():
    torch._dynamo.reset()
    x, w, b, dy = tensors(256, 1024)

    def norm(x, w, b):
        return layer_norm(x * 2, (1024,), w, b) + 1

    compiled = torch.compile(norm, fullgraph=True, mode="reduce-overhead")
    wanted = norm(x, w, b)
    gradients = torch.autograd.grad(wanted, (x, w, b), dy)
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        found = compiled(x, w, b)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(torch.autograd.grad(found, (x, w, b), dy), gradients)


def test_memory_comes_from_torch_and_goes_back():
    x, w, b, dy = tensors(4096, 1024)
    step(x, w, b, dy)
    torch.cuda.synchronize()
    before, (free, _) = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()
    for _ in range(100):
        step(x, w, b, dy)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.mem_get_info()[0] == free


def test_gradients_have_the_same_bits_in_every_run():
    x, w, b, dy = tensors(4096, 4096)
    wanted = step(x, w, b, dy)
    assert all(equal(step(x, w, b, dy), wanted) for _ in range(20))
