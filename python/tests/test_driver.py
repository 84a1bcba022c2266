"""What becomes of a call on a GPU, with a stand-in for libcuda that computes nothing.

``FERRONORM_FAKE_CUDA`` names the stand-in: a build of crates/fake_cuda. It is opened once in a
process, so that each test has one of its own.
"""

import os
import subprocess
import sys
from textwrap import dedent

import pytest

FAKE = os.environ.get("FERRONORM_FAKE_CUDA")

pytestmark = pytest.mark.skipif(not FAKE, reason="FERRONORM_FAKE_CUDA names no stand-in")

BEGIN = """
import ctypes
import threading
from ferronorm._ferronorm import Backward, Forward

fake = ctypes.CDLL(FAKE)

def forward(device=0, columns=1024):
    return Forward(device, 2, 8, columns, 1e-5, False, 4096, columns, 0, 0, 4096, 4096)

def backward(device=0, columns=1024):
    return Backward(
        device, 2, 8, columns, 1e-5, False, 4096, columns, 0, 4096, 4096, columns, 4096, 4096, 4096
    )

def current():
    context = ctypes.c_size_t(1)
    assert fake.cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value

def stream():
    fake.cuCtxSetCurrent(ctypes.c_size_t(0xC0))
    handle = ctypes.c_size_t()
    assert fake.cuStreamCreate(ctypes.byref(handle), 1) == 0
    fake.cuCtxSetCurrent(ctypes.c_size_t(0))
    return handle.value

def misuse():
    text = ctypes.create_string_buffer(4096)
    fake.fake_cuda_misuse(text, 4096)
    return text.value.decode()
"""


def run(program, **variables):
    """Runs a program in a process of its own, and gives its error output."""
    environment = {**os.environ, "FERRONORM_LIBCUDA": FAKE, **variables}
    code = f"FAKE = {FAKE!r}\n{BEGIN}\n{dedent(program)}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("capability", [75, 90])
def test_a_launch_has_its_context_current_and_leaves_the_threads_as_it_was(capability):
    program = """
    call = forward()
    assert current() == 0, "opening a device leaves nothing current"
    handle = stream()
    for make in (forward, backward):
        for columns in (1024, 1023, 40000):
            call = make(columns=columns)
            call.launch(handle, 4096)
            assert current() == 0
            thread = threading.Thread(target=call.launch, args=(handle, 4096))
            thread.start()
            thread.join()
    fake.cuCtxSetCurrent(ctypes.c_size_t(0xC0))
    call.launch(handle, 4096)
    assert current() == 0xC0
    assert not misuse(), misuse()
    """
    assert run(program, FAKE_CUDA=f"capability={capability}") == (0, "")


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({"FERRONORM_LIBCUDA": "/nonexistent"}, "no CUDA driver library"),
        ({"FAKE_CUDA": "devices=0"}, "device 0: the driver shows 0 devices"),
        ({"FAKE_CUDA": "cuInit=100"}, "device 0: the driver shows 0 devices"),
        ({"FAKE_CUDA": "all=34"}, "the CUDA toolkit's stub"),
        ({"FAKE_CUDA": "capability=70"}, "device of compute capability 70"),
        ({"FAKE_CUDA": "version=9020,capability=75"}, "driver for CUDA 9.2"),
        ({"FAKE_CUDA": "cuDevicePrimaryCtxRetain=2"}, "CUDA_ERROR_OUT_OF_MEMORY"),
        ({"FAKE_CUDA": "cuModuleLoadDataEx=218"}, "Parsing error near"),
        ({"FAKE_CUDA": "cuLaunchKernel=700"}, "launching a kernel: CUDA_ERROR_ILLEGAL_ADDRESS"),
    ],
)
def test_what_the_driver_says_is_a_runtime_error(variables, error):
    code, text = run("forward().launch(0, 0)", **variables)
    assert code == 1
    assert "RuntimeError: " in text
    assert error in text
    assert "panicked" not in text
