"""The examples in the documentation run, and give what they say."""

import doctest
import re
from pathlib import Path

import pytest

import ferronorm

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_package():
    result = doctest.testmod(ferronorm)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_package_for_torch():
    pytest.importorskip("torch")
    import ferronorm.torch

    result = doctest.testmod(ferronorm.torch)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_readme_for_numpy():
    names = {}
    exec(BLOCKS[1], names)
    assert names["dx"].shape == (8, 1024)


def test_the_readme_for_torch(device):
    names = {}
    exec(BLOCKS[0].replace('"cuda"', f'"{device}"'), names)
    assert names["x"].grad.shape == (4, 128, 512)
    assert len(BLOCKS[0].strip().split("\n")) <= 10
