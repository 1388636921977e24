"""A launch is settled once for tensors of one kind, and again for tensors of another."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels import launch as launching
from lab.kernels.early import NEXT_BEGINS_AT_END, NEXT_BEGINS_EARLY
from lab.kernels.launch import (
    Configuration,
    Launch,
    Launches,
    blocks_per_multiprocessor,
    stages_that_fit,
    when_next_begins,
)
from lab.kernels.rmsnorm import rmsnorm, rmsnorm_inputs
from lab.kernels.rope import rope_, rope_qk_inputs


@triton.jit
def _scale_kernel(x_ptr, y_ptr, factor, elements, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < elements if MASKED else None
    tl.store(y_ptr + lanes, tl.load(x_ptr + lanes, mask=mask) * factor, mask=mask)


def scaling(x: Tensor) -> Launch:
    elements = x.numel()
    return Launch(
        _scale_kernel, triton.cdiv(elements, 64), x.get_device(), elements,
        num_warps=1, BLOCK=64, MASKED=elements % 64 != 0,
    )  # fmt: skip


class Settling:
    """Launches that count how often they are settled."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.launches = Launches(self._prepare)

    def _prepare(self, x: Any, *options: Any) -> Any:
        if not isinstance(x, Tensor):
            raise TypeError(f"x is a {type(x).__name__}")
        if "refuse" in options:
            raise ValueError("refused")
        self.calls.append((x.shape, *options))
        return object()

    def again(self, x: Any, *options: Any) -> bool:
        """Whether the call is settled anew."""
        before = len(self.calls)
        self.launches(x, options=options)
        return len(self.calls) > before


@pytest.fixture
def settling() -> Settling:
    return Settling()


def test_tensors_of_one_kind_are_settled_once(settling: Settling) -> None:
    assert settling.again(torch.zeros(4, 8))
    assert not settling.again(torch.ones(4, 8))
    assert settling.launches(torch.zeros(4, 8)) is settling.launches(torch.ones(4, 8))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda: torch.zeros(4, 16), id="shape"),
        pytest.param(lambda: torch.zeros(4, 16)[:, :8], id="stride"),
        pytest.param(lambda: torch.zeros(1, 8).expand(4, 8), id="stride of zero"),
        pytest.param(lambda: torch.zeros(33)[1:].view(4, 8), id="alignment"),
        pytest.param(lambda: torch.zeros(4, 8, dtype=torch.float16), id="dtype"),
        pytest.param(lambda: torch.zeros(4, 8, requires_grad=True), id="gradient wanted"),
    ],
)
def test_tensors_of_another_kind_are_settled_anew(settling: Settling, other: Any) -> None:
    settling.again(torch.zeros(4, 8))
    assert settling.again(other())
    assert not settling.again(other())


def test_another_grad_mode_and_another_option_are_settled_anew(settling: Settling) -> None:
    x = torch.zeros(4, 8)
    settling.again(x)
    with torch.no_grad():
        assert settling.again(x)
        assert not settling.again(x)
    one, other = (Configuration.of(BLOCK=block, num_warps=4) for block in (64, 128))
    assert settling.again(x, one)
    assert settling.again(x, other)
    assert not settling.again(x, Configuration.of(BLOCK=64, num_warps=4))


@pytest.mark.parametrize("what", [None, [1.0], 3.0, "x"])
def test_what_is_no_tensor_is_refused_by_the_settling(settling: Settling, what: Any) -> None:
    with pytest.raises(TypeError, match=f"^x is a {type(what).__name__}$"):
        settling.launches(what)


def test_a_refusal_is_not_kept(settling: Settling) -> None:
    x = torch.zeros(4, 8)
    for _ in range(2):
        with pytest.raises(ValueError, match="refused"):
            settling.launches(x, options=("refuse",))


def test_no_more_launches_are_kept_than_a_bound(settling: Settling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "MOST_KEPT", 3)
    for columns in range(1, 50):
        settling.again(torch.zeros(1, columns))
        assert len(settling.launches._known) <= 3
    assert settling.again(torch.zeros(1, 1))


@pytest.mark.parametrize(
    "constants", [{"MASKED": False, "BLOCK": 64}, {"BLOCK": 64}, {"BLOCK": 64, "MASKED": False, "STAGES": 2}], ids=str
)
def test_constants_that_are_not_the_kernels_last_parameters_are_refused(constants: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"the last parameters of .* are .*; the constants given are "):
        Launch(_scale_kernel, 1, -1, 64, num_warps=1, **constants)


class Compiled:
    """What Triton makes of a kernel that needs `n_regs` registers; it notes what is done with it."""

    function, packed_metadata, metadata = 7, (1,), SimpleNamespace(num_warps=8, shared=0)

    def __init__(self, log: list[Any], n_regs: int) -> None:
        self.log, self.n_regs = log, n_regs

    def _init_handles(self) -> None:
        self.log.append("loaded")

    def run(self, *arguments: Any) -> None:
        self.log.append("run")


class Kernel:
    def __init__(self, n_regs: int) -> None:
        self.arg_names = ["x_ptr", "n", "BLOCK"]
        self.log: list[Any] = []
        self.compiled = Compiled(self.log, n_regs)

    def warmup(self, x: Any, n: int, *, grid: Any, launch_pdl: int, **options: Any) -> Compiled:
        self.log.append(("compiled", launch_pdl))
        return self.compiled

    def __getitem__(self, grid: Any) -> Callable[..., Compiled]:
        def launched(x: Any, n: int, *, launch_pdl: int, **options: Any) -> Compiled:
            self.log.append(("launched", launch_pdl))
            return self.compiled

        return launched


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "starts_early", lambda device: True)
    monkeypatch.setattr(launching, "multiprocessors", lambda device: 132)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    stream = SimpleNamespace(get_current_stream=lambda device: 0)
    monkeypatch.setattr(launching, "driver", SimpleNamespace(active=stream))


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(("registers", "value"), [(40, NEXT_BEGINS_AT_END), (32, NEXT_BEGINS_EARLY)])
def test_a_kernel_runs_once_for_each_call_and_is_compiled_for_when_the_next_begins(registers: int, value: int) -> None:
    kernel = Kernel(registers)
    launch = Launch(kernel, 512, 0, 99, num_warps=8, early=True, BLOCK=4)
    launch("x")
    launch("x")
    assert kernel.log == [("compiled", NEXT_BEGINS_EARLY), "loaded", ("launched", value), "run"]


@pytest.mark.usefixtures("hopper")
def test_a_grid_that_leaves_multiprocessors_idle_lets_the_next_begin() -> None:
    kernel = Kernel(168)
    Launch(kernel, 132, 0, 99, num_warps=8, early=True, BLOCK=4)("x")
    assert kernel.log == [("launched", NEXT_BEGINS_EARLY)]


@pytest.mark.usefixtures("hopper")
def test_a_program_of_a_cluster_counts_as_its_blocks() -> None:
    kernel = Kernel(40)
    Launch(kernel, 128, 0, 99, num_warps=8, early=True, cluster=4, BLOCK=4)("x")
    assert kernel.log[-1] == ("launched", NEXT_BEGINS_AT_END)


@pytest.mark.usefixtures("hopper")
def test_what_is_not_to_begin_early_does_not() -> None:
    assert "launch_pdl" not in Launch(Kernel(40), 512, 0, 99, num_warps=8, BLOCK=4)._options


@pytest.mark.parametrize(
    ("blocks", "resident", "value"),
    [
        (512, 3, NEXT_BEGINS_EARLY),  # several rounds: as a block ends, one of the next grid takes its place
        (512, 4, NEXT_BEGINS_EARLY),  # no room beside them
        (512, 5, NEXT_BEGINS_AT_END),
        (512, 7, NEXT_BEGINS_AT_END),
        (512, 8, NEXT_BEGINS_EARLY),  # two grids fit
    ],
)
def test_the_next_grid_begins_when_its_blocks_are_spread_evenly(blocks: int, resident: int, value: int) -> None:
    assert when_next_begins(blocks, 132 * resident) == value


@pytest.mark.parametrize(
    ("warps", "registers", "shared_bytes", "blocks"),
    [
        (8, 32, 0, 8), (8, 33, 0, 6), (16, 128, 0, 1), (16, 64, 0, 2), (1, 16, 0, 32), (4, 16, 0, 16),
        (8, 32, 57_344, 4), (8, 32, 57_345, 3), (12, 168, 200_000, 1),
    ],
)  # fmt: skip
def test_registers_threads_and_shared_memory_limit_the_blocks_of_a_multiprocessor(
    warps: int, registers: int, shared_bytes: int, blocks: int
) -> None:
    assert blocks_per_multiprocessor(warps, registers, shared_bytes) == blocks


@pytest.mark.parametrize("elements", [64, 65, 1000])
def test_a_launch_is_called_with_the_arguments_before_the_settled_ones(elements: int, device: str) -> None:
    x = torch.arange(elements, dtype=torch.float32, device=device)
    launch = scaling(x)
    for factor in (2.0, 3.0, 0.5):
        y = torch.empty_like(x)
        launch(x, y, factor)
        assert torch.equal(y, x * factor)


def test_a_configuration_is_read_by_name_and_compared_by_value() -> None:
    chosen = Configuration.of(ROWS=2, BLOCK=64, num_warps=4)
    assert chosen["BLOCK"] == 64
    assert chosen == Configuration.of(ROWS=2, BLOCK=64, num_warps=4, num_stages=3)
    assert hash(chosen) != hash(Configuration.of(ROWS=2, BLOCK=64, num_warps=8))


@pytest.mark.gpu
def test_on_a_gpu_a_settled_launch_gives_the_same_bits_as_the_first() -> None:
    x, weight = rmsnorm_inputs((100, 1000), torch.float16, "cuda", seed=1)
    first = rmsnorm(x, weight)
    assert all(torch.equal(rmsnorm(x, weight), first) for _ in range(3))
    fresh, _ = rmsnorm_inputs((100, 1000), torch.float16, "cuda", seed=2)
    assert not torch.equal(rmsnorm(fresh, weight), first)


@pytest.mark.gpu
@pytest.mark.parametrize("eps", [1, 1e-6])
def test_on_a_gpu_an_argument_of_the_first_call_does_not_stay_for_the_next(eps: float) -> None:
    x, weight = rmsnorm_inputs((7, 300), torch.float32, "cuda", seed=3)
    rmsnorm(x, weight, eps)
    torch.testing.assert_close(rmsnorm(x, weight, 100.0), torch.nn.functional.rms_norm(x, (300,), weight, 100.0))


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [1000, 65_536])
def test_on_a_gpu_a_graph_replays_it_on_new_data(columns: int) -> None:
    x, weight = rmsnorm_inputs((64, columns), torch.bfloat16, "cuda", seed=4)
    rmsnorm(x, weight)  # compiled before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = rmsnorm(x, weight)
    for seed in (5, 6):
        x.copy_(rmsnorm_inputs((64, columns), torch.bfloat16, "cuda", seed)[0])
        graph.replay()
        assert torch.equal(y, rmsnorm(x, weight))


@pytest.mark.gpu
def test_on_a_gpu_it_runs_in_the_current_stream() -> None:
    x, weight = rmsnorm_inputs((512, 4096), torch.float16, "cuda", seed=7)
    expected = rmsnorm(x, weight)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)  # work before it in that stream, and in no other
        late = torch.zeros_like(x).copy_(x)
        y = rmsnorm(late, weight)
    stream.synchronize()
    assert torch.equal(y, expected)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_on_two_gpus_a_launch_goes_to_that_of_its_tensors() -> None:
    x, weight = rmsnorm_inputs((32, 500), torch.float16, "cuda:0", seed=8)
    expected = rmsnorm(x, weight).cpu()
    away = x.to("cuda:1"), weight.to("cuda:1")
    for _ in range(2):
        y = rmsnorm(*away)  # while cuda:0 is the current one
        assert y.device == away[0].device
        assert torch.equal(y.cpu(), expected)
        assert torch.equal(rmsnorm(x, weight).cpu(), expected)
    with torch.cuda.device(1):
        assert torch.equal(rmsnorm(*away).cpu(), expected)
        assert torch.equal(rmsnorm(x, weight).cpu(), expected)


def test_a_compiled_model_calls_kernels_as_they_are(device: str) -> None:
    """torch.compile would else follow the call into Triton, and take what was settled for a constant."""
    x, cos, sin = rope_qk_inputs((1, 2, 1, 5, 8), torch.float32, device, seed=9)[1:]
    _, weight = rmsnorm_inputs((1, 8), torch.float32, device, seed=9)

    def model(x: Tensor) -> Tensor:
        y = rmsnorm(x * 2, weight) + 1
        return rope_(y * 3, cos[: x.shape[-2]], sin[: x.shape[-2]]) - 1

    compiled = torch.compile(model, backend="aot_eager")
    for heads in (x, x + 1, x[:, :, :3], x.transpose(1, 2).contiguous().transpose(1, 2)):
        torch.testing.assert_close(compiled(heads), model(heads))
    torch.compiler.reset()


@pytest.mark.parametrize("shared_bytes", [101_376, 166_912, 232_448])  # of an L40S, an A100 and an H100
def test_a_pipeline_has_as_many_stages_as_fit(shared_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.kernels.launch.shared_memory", lambda device: shared_bytes)
    assert stages_that_fit(4, 16_384, 0) == 4
    assert stages_that_fit(6, 40_960, 0) * 40_960 < shared_bytes
    assert stages_that_fit(3, 300_000, 0) == 1
