"""The modules beside torch's: state, replacement, and the training of a small transformer."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import ferronorm.torch  # noqa: E402
from ferronorm.torch import LayerNorm, RMSNorm  # noqa: E402

ARGUMENTS = [
    (LayerNorm, {}),
    (LayerNorm, {"eps": 0.1, "bias": False}),
    (LayerNorm, {"elementwise_affine": False, "dtype": torch.float64}),
    (LayerNorm, {"dtype": torch.bfloat16}),
    (RMSNorm, {}),
    (RMSNorm, {"eps": 0.1, "dtype": torch.float16}),
    (RMSNorm, {"elementwise_affine": False}),
]


@pytest.mark.parametrize(("ours", "arguments"), ARGUMENTS)
@pytest.mark.parametrize("shape", [8, (3, 8), [8]])
def test_a_module_is_that_of_torch(device, ours, arguments, shape):
    theirs = getattr(nn, ours.__name__)
    wanted = theirs(shape, device=device, **arguments)
    for parameter in wanted.parameters():
        nn.init.normal_(parameter)
    found = ours(shape, device=device, **arguments)
    assert found.state_dict().keys() == wanted.state_dict().keys()
    found.load_state_dict(wanted.state_dict())
    assert repr(found) == repr(wanted)
    dtype = arguments.get("dtype", torch.float32)
    x = torch.randn(4, 3, 8, device=device, dtype=dtype)
    close = {"rtol": 1e-2, "atol": 1e-2} if dtype.itemsize == 2 else {}
    torch.testing.assert_close(found(x), wanted(x), **close)
    for copied in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert torch.equal(copied(x), found(x))


class Custom(nn.LayerNorm):
    """Something else."""


def test_replace_changes_modules_in_place(device):
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    model = nn.Sequential(layer, nn.RMSNorm(16), Custom(16), nn.Linear(16, 16)).to(device)
    calls = []
    layer.norm1.register_forward_hook(lambda *_: calls.append("norm1"))
    norm1, parameters = layer.norm1, [id(p) for p in model.parameters()]
    x = torch.randn(2, 3, 16, device=device)
    before = model(x)

    assert ferronorm.torch.replace(model) is model
    norms = layer.norm1, layer.norm2, *model[1:3]
    assert [type(norm) for norm in norms] == [LayerNorm, LayerNorm, RMSNorm, Custom]
    assert layer.norm1 is norm1
    assert [id(p) for p in model.parameters()] == parameters
    torch.testing.assert_close(model(x), before)
    assert calls == ["norm1", "norm1"]
    assert type(ferronorm.torch.replace(nn.LayerNorm(4))) is LayerNorm, "a model of one module"


class Transformer(nn.Module):
    """Predicts the next of 64 tokens."""

    def __init__(self, width=64, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 64)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.layers(self.embedding(tokens), mask, is_causal=True)))


def losses(model, device, dtype, steps=10):
    """The loss of each step of training under autocast to a type."""
    make = torch.Generator().manual_seed(4)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    curve = []
    for _ in range(steps):
        start = torch.randint(64, (8, 1), generator=make)
        tokens = ((start + 3 * torch.arange(33)) % 64).to(device)
        with torch.autocast(device, dtype):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return torch.tensor(curve)


def test_a_transformer_trains_to_the_same_losses(device):
    torch.manual_seed(5)
    model = Transformer().to(device)
    replaced = ferronorm.torch.replace(copy.deepcopy(model))
    assert sum(type(m) is LayerNorm for m in replaced.modules()) == 5
    torchs = losses(model, device, torch.bfloat16)
    ours = losses(replaced, device, torch.bfloat16)
    assert torchs[-1] < 0.75 * torchs[0], "it learns"
    torch.testing.assert_close(ours, torchs, rtol=5e-3, atol=0)
