"""PyTorch's own sample inputs for its layer_norm and rms_norm, from its database of operators."""

import pytest

torch = pytest.importorskip("torch")
database = pytest.importorskip("torch.testing._internal.common_methods_invocations")

from ferronorm.torch import layer_norm, rms_norm  # noqa: E402

FUNCTIONS = {"nn.functional.layer_norm": layer_norm, "nn.functional.rms_norm": rms_norm}
OPERATORS = [operator for operator in database.op_db if operator.name in FUNCTIONS]
FLOATS = {torch.float64, torch.float32, torch.float16, torch.bfloat16}
CASES = [(operator, dtype) for operator in OPERATORS for dtype in operator.dtypes & FLOATS]


def names(case):
    return case.name if hasattr(case, "name") else str(case)


def gradients(function, sample):
    """The result, and its gradient for every tensor of the sample."""
    leaves = [t for t in (sample.input, *sample.args) if isinstance(t, torch.Tensor)]
    leaves += [t for t in sample.kwargs.values() if isinstance(t, torch.Tensor)]
    y = function(sample.input, *sample.args, **sample.kwargs)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).view_as(y)
    return [y, *torch.autograd.grad(y, leaves, weights)]


def in_64_bits(argument):
    if isinstance(argument, torch.Tensor):
        return argument.detach().double().requires_grad_()
    return argument


def test_the_database_has_both():
    assert {operator.name for operator in OPERATORS} == set(FUNCTIONS)


@pytest.mark.parametrize(("operator", "dtype"), CASES, ids=names)
def test_samples(device, operator, dtype):
    samples = list(operator.sample_inputs(device, dtype, requires_grad=True))
    assert samples
    for sample in samples:
        found = gradients(FUNCTIONS[operator.name], sample)
        # torch's own at 64 bits: with fewer, it leaves a row of one number its rounding error.
        exact = sample.transform(in_64_bits)
        right = [t.to(dtype) for t in gradients(operator.op, exact)]
        close = {"rtol": 1e-2, "atol": 1e-2} if dtype.itemsize == 2 else {}
        torch.testing.assert_close(found, right, equal_nan=True, **close)


@pytest.mark.parametrize("operator", OPERATORS, ids=names)
def test_second_derivatives_of_samples(device, operator):
    for sample in operator.sample_inputs(device, torch.float64, requires_grad=True):
        if sample.kwargs.get("eps", 0) < 0:
            continue  # NaN, of which there are no differences.

        def function(x, *args, sample=sample):
            return FUNCTIONS[operator.name](x, *args, **sample.kwargs)

        arguments = (sample.input, *sample.args)
        assert torch.autograd.gradcheck(function, arguments)
        assert torch.autograd.gradgradcheck(function, arguments)


@pytest.mark.parametrize("operator", OPERATORS, ids=names)
def test_wrong_inputs(device, operator):
    if operator.error_inputs_func is None:
        pytest.skip("the database has none")
    for error in operator.error_inputs(device):
        sample = error.sample_input
        with pytest.raises(error.error_type, match=error.error_regex):
            FUNCTIONS[operator.name](sample.input, *sample.args, **sample.kwargs)
