"""Can any known way to fool a GPU benchmark win a claim here? Cheating kernels, and honest kernels that look odd."""

import gc
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from experiments.cheats.table import GPU, IN_VAIN, NEW_CHEATS, NEW_HONEST, cheat, honest
from experiments.normalization_fusion import RMSNORM, rmsnorm_fused
from lab import Case, Claim, Experiment, Operator, Profile
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.traffic import Traffic

HONEST_CALLS = 40  # more than the checks and the warm-up take

# No edge inputs: they would catch cheats before the checks of timed calls can, which this experiment tests.
CHEATED = replace(RMSNORM, edges=())
# The honest profiles are measured on this operator too. It has its own name, because the cheats are not.
EXTREME = replace(CHEATED, name="extreme-rmsnorm")
# Rows of which any part resembles the whole, in a dtype with a wide tolerance.
WIDE = replace(CHEATED, name="wide-rmsnorm")


def one_matrix(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    return (torch.randn(shape, dtype=dtype, device=device, generator=torch.Generator(device).manual_seed(seed)),)


def row_norms(x: Tensor) -> Tensor:
    return x.pow(2).mean(-1).sqrt()


def row_norms_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    rows, columns = shape
    return Traffic(
        read_bytes=rows * columns * itemsize, written_bytes=rows * itemsize, flops=2 * rows * columns
    )  # fmt: skip


# Its results are the same for x and -x.
EVEN = Operator(
    name="row-norms", inputs=one_matrix, reference=lambda x: row_norms(x.double()), traffic=row_norms_traffic,
    tolerance=64,
)  # fmt: skip
EVEN_CASE = Case(operator=EVEN, shape=(1024, 2048), dtype="float32", description="the norm of each row")
PLAIN_CASE = Case(operator=CHEATED, shape=(1024, 2048), dtype="float32", description="RMSNorm, of a middling size")
TINY_CASE = Case(operator=EXTREME, shape=(1, 64), dtype="float32", description="a single short row: all launch")
WIDE_CASE = Case(
    operator=WIDE, shape=(64, 32768), dtype="bfloat16", description="few rows, each of many elements",
)  # fmt: skip
HUGE_CASE = Case(
    operator=EXTREME, shape=(65536, 8192), dtype="float16", only_with="full-validity",
    description="a gibibyte in and a gibibyte out",
)  # fmt: skip


def by_pointer() -> Callable[[Tensor, Tensor], Tensor]:
    return _remembering(lambda x: x.data_ptr(), clone=False)


def by_pointer_cloned() -> Callable[[Tensor, Tensor], Tensor]:
    return _remembering(lambda x: x.data_ptr(), clone=True)


def by_id() -> Callable[[Tensor, Tensor], Tensor]:
    return _remembering(id, clone=True)


def by_shape() -> Callable[[Tensor, Tensor], Tensor]:
    return _remembering(lambda x: (x.shape, x.dtype), clone=True)


def by_fingerprint() -> Callable[[Tensor, Tensor], Tensor]:
    return _remembering(lambda x: tuple(x[0, :4].tolist()), clone=True)


def _remembering(key: Callable[[Tensor], Any], clone: bool) -> Callable[[Tensor, Tensor], Tensor]:
    memory: dict[Any, Tensor] = {}

    def remember(x: Tensor, weight: Tensor) -> Tensor:
        if key(x) not in memory:
            memory[key(x)] = rmsnorm_fused(x, weight)
        return memory[key(x)].clone() if clone else memory[key(x)]

    return remember


def unjoined_stream() -> Callable[[Tensor, Tensor], Tensor]:
    def leave(x: Tensor, weight: Tensor) -> Tensor:
        y = torch.empty_like(x)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y.copy_(rmsnorm_fused(x, weight))
        return y

    return leave


def unordered_stream() -> Callable[[Tensor, Tensor], Tensor]:
    side = None

    def rush(x: Tensor, weight: Tensor) -> Tensor:
        nonlocal side
        side = side or torch.cuda.Stream()
        y = torch.empty_like(x)
        with torch.cuda.stream(side):
            y.copy_(rmsnorm_fused(x, weight))
        return y

    return rush


class Promise(Tensor):
    """A tensor that computes its values only when it is read."""


def lazy() -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, weight: x.as_subclass(Promise)


def mutating() -> Callable[[Tensor, Tensor], Tensor]:
    def change(x: Tensor, weight: Tensor) -> Tensor:
        y = rmsnorm_fused(x, weight)
        x.zero_()
        return y

    return change


def mutating_later() -> Callable[[Tensor, Tensor], Tensor]:
    calls = 0

    def change(x: Tensor, weight: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        y = rmsnorm_fused(x, weight)
        if calls > HONEST_CALLS:
            x.zero_()
        return y

    return change


def one_buffer() -> Callable[[Tensor, Tensor], Tensor]:
    memory: dict[Any, Tensor] = {}

    def reuse(x: Tensor, weight: Tensor) -> Tensor:
        y = memory.setdefault((x.shape, x.dtype), torch.empty_like(x))
        return y.copy_(rmsnorm_fused(x, weight))

    return reuse


def patched_event() -> Callable[[Tensor, Tensor], Tensor]:
    def patch(x: Tensor, weight: Tensor) -> Tensor:
        setattr(torch.cuda.Event, "elapsed_time", lambda start, stop: 0.004)  # noqa: B010
        return rmsnorm_fused(x, weight)

    return patch


def patched_counter() -> Callable[[Tensor, Tensor], Tensor]:
    def patch(x: Tensor, weight: Tensor) -> Tensor:
        time.perf_counter = time.process_time
        return rmsnorm_fused(x, weight)

    return patch


def patched_judge() -> Callable[[Tensor, Tensor], Tensor]:
    def patch(x: Tensor, weight: Tensor) -> Tensor:
        for module in ("lab.worker.correctness", "lab.worker.sweep_case"):
            sys.modules[module].check_output = lambda *_: None  # type: ignore[attr-defined]
        return torch.empty_like(x)

    return patch


def patched_insides() -> Callable[[Tensor, Tensor], Tensor]:
    def patch(x: Tensor, weight: Tensor) -> Tensor:
        sys.modules["lab.worker.correctness"]._error = lambda *_: (0.0, 0.0, False)  # type: ignore[attr-defined]
        return torch.zeros_like(x)

    return patch


def self_healing_counter() -> Callable[[Tensor, Tensor], Tensor]:
    real = time.perf_counter
    calls = 0

    def forged() -> float:
        time.perf_counter = real
        return real() - 0.00025

    def patch(x: Tensor, weight: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        y = rmsnorm_fused(x, weight)
        if calls > HONEST_CALLS:
            time.perf_counter = forged
        return y

    return patch


def patched_when_loaded() -> Callable[[Tensor, Tensor], Tensor]:
    time.perf_counter = time.process_time
    return rmsnorm_fused


class LateMode(TorchFunctionMode):
    """Computes a result only when it is copied or compared."""

    def __init__(self) -> None:
        super().__init__()
        self.owed: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        looked_at = next((item for item in args if isinstance(item, Tensor) and id(item) in self.owed), None)
        if looked_at is not None:
            looked_at.copy_(rmsnorm_fused(*self.owed.pop(id(looked_at))))
        return function(*args, **(kwargs or {}))


def lazy_by_mode() -> Callable[[Tensor, Tensor], Tensor]:
    mode = LateMode()
    started = False

    def promise(x: Tensor, weight: Tensor) -> Tensor:
        nonlocal started
        if not started:
            mode.__enter__()
            started = True
        with torch._C.DisableTorchFunction():
            y = torch.empty_like(x)
        mode.owed[id(y)] = (x, weight)
        return y

    return promise


def ahead() -> Callable[[Tensor, Tensor], Tensor]:
    """Works between calls, when no clock runs. A call computes only rows whose first number has changed since."""
    known: dict[int, tuple[Tensor, Tensor]] = {}
    ready: dict[int, tuple[Tensor, Tensor]] = {}

    def work() -> None:
        for place, (x, weight) in known.items():
            ready.setdefault(place, (rmsnorm_fused(x, weight), x[:, 0].clone()))

    def run(x: Tensor, weight: Tensor) -> Tensor:
        known[x.data_ptr()] = x, weight
        y, firsts = ready.pop(x.data_ptr(), (None, None))
        if y is None or firsts is None:
            y = rmsnorm_fused(x, weight)
        else:
            for row in (x[:, 0] != firsts).nonzero().flatten().tolist():
                y[row] = rmsnorm_fused(x[row], weight)
        weakref.finalize(y, work)
        return y

    return run


def peeking() -> Callable[[Tensor, Tensor], Tensor]:
    def callers(frame: FrameType | None) -> Iterator[FrameType]:
        while frame := frame and frame.f_back:
            yield frame

    def peek(x: Tensor, weight: Tensor) -> Tensor:
        clock = next((frame for frame in callers(sys._getframe()) if frame.f_code.co_name.endswith("block")), None)
        if clock is None or clock.f_locals.get("number", -1) == clock.f_locals.get("keep", -2):
            return rmsnorm_fused(x, weight)
        y = torch.empty_like(x)
        y[: len(x) // 2] = rmsnorm_fused(x[: len(x) // 2], weight)
        return y

    return peek


def even_by_pointer() -> Callable[[Tensor], Tensor]:
    memory: dict[int, Tensor] = {}
    return lambda x: memory.setdefault(x.data_ptr(), row_norms(x)).clone()


def late_fallback() -> Callable[[Tensor, Tensor], Tensor]:
    calls = 0

    def fall_back(x: Tensor, weight: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return rmsnorm(x, weight) if calls <= HONEST_CALLS else rmsnorm_fused(x, weight)

    return fall_back


def unwritten() -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, weight: torch.empty_like(x)


def last_row_unwritten() -> Callable[[Tensor, Tensor], Tensor]:
    def most(x: Tensor, weight: Tensor) -> Tensor:
        y = torch.empty_like(x)
        y[:-1] = rmsnorm_fused(x[:-1], weight)
        return y

    return most


def all_nan() -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, weight: torch.full_like(x, float("nan"))


def silent_fallback() -> Callable[[Tensor, Tensor], Tensor]:
    def fall_back(x: Tensor, weight: Tensor) -> Tensor:
        try:
            raise NotImplementedError("the kernel that this profile names")
        except NotImplementedError:
            return rmsnorm_fused(x, weight)

    return fall_back


def tiring() -> Callable[[Tensor, Tensor], Tensor]:
    calls = 0

    def tire(x: Tensor, weight: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return rmsnorm_fused(x, weight) if calls <= HONEST_CALLS else torch.zeros_like(x)

    return tire


def every_fourth() -> Callable[[Tensor, Tensor], Tensor]:
    calls = 0
    last: list[Tensor] = []

    def batch(x: Tensor, weight: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls <= HONEST_CALLS or calls % 4 == 0:
            last[:] = [rmsnorm_fused(x, weight)]
        return last[0].clone()

    return batch


def half_the_rows() -> Callable[[Tensor, Tensor], Tensor]:
    def half(x: Tensor, weight: Tensor) -> Tensor:
        y = rmsnorm_fused(x[: len(x) // 2], weight)
        return torch.cat([y, y])

    return half


def scavenging() -> Callable[[Tensor, Tensor], Tensor]:
    def scavenge(x: Tensor, weight: Tensor) -> Tensor:
        for thing in gc.get_objects():
            if type(thing) is Tensor and thing.dtype == torch.float64 and thing.shape == x.shape:
                return thing.to(x.dtype)
        return torch.zeros_like(x)

    return scavenge


def imprecise() -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, weight: rmsnorm_fused(x.bfloat16(), weight.bfloat16()).to(x.dtype)


def in_place() -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, weight: x.copy_(rmsnorm_fused(x, weight))


def many_launches() -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, weight: torch.cat([rmsnorm_fused(part, weight) for part in x.chunk(8)])


def side_allocation() -> Callable[[Tensor, Tensor], Tensor]:
    def allocate(x: Tensor, weight: Tensor) -> Tensor:
        scratch = torch.empty((3, *x.shape), dtype=x.dtype, device=x.device)
        scratch[1] = x
        return rmsnorm_fused(scratch[1], weight)

    return allocate


def kept_scratch() -> Callable[[Tensor, Tensor], Tensor]:
    memory: dict[Any, Tensor] = {}

    def keep(x: Tensor, weight: Tensor) -> Tensor:
        scratch = memory.setdefault((x.shape, x.dtype), torch.empty_like(x))
        return rmsnorm_fused(scratch.copy_(x), weight)

    return keep


def own_graph() -> Callable[[Tensor, Tensor], Tensor]:
    graphs: dict[Any, tuple[Any, Tensor, Tensor, Tensor]] = {}

    def replay(x: Tensor, weight: Tensor) -> Tensor:
        if torch.cuda.is_current_stream_capturing():
            return rmsnorm_fused(x, weight)
        key = (x.shape, x.dtype)
        if key not in graphs:
            static_x, static_weight, graph = x.clone(), weight.clone(), torch.cuda.CUDAGraph()
            rmsnorm_fused(static_x, static_weight)
            with torch.cuda.graph(graph):
                y = rmsnorm_fused(static_x, static_weight)
            graphs[key] = graph, static_x, static_weight, y
        graph, static_x, static_weight, y = graphs[key]
        static_x.copy_(x)
        static_weight.copy_(weight)
        graph.replay()
        return y.clone()

    return replay


def joined_stream() -> Callable[[Tensor, Tensor], Tensor]:
    def fork(x: Tensor, weight: Tensor) -> Tensor:
        main, side = torch.cuda.current_stream(), torch.cuda.Stream()
        y = torch.empty_like(x)
        half = len(x) // 2
        side.wait_stream(main)
        with torch.cuda.stream(side):
            y[half:] = rmsnorm_fused(x[half:], weight)
        y[:half] = rmsnorm_fused(x[:half], weight)
        main.wait_stream(side)
        return y

    return fork


def compiled() -> Callable[[Tensor, Tensor], Tensor]:
    return torch.compile(rmsnorm_fused, dynamic=False)


def view_of_larger() -> Callable[[Tensor, Tensor], Tensor]:
    def view(x: Tensor, weight: Tensor) -> Tensor:
        y = torch.empty((len(x) + 1, *x.shape[1:]), dtype=x.dtype, device=x.device)
        y[:-1] = rmsnorm_fused(x, weight)
        return y[:-1]

    return view


def tuned_at_first() -> Callable[[Tensor, Tensor], Tensor]:
    chosen: list[Callable[[Tensor, Tensor], Tensor]] = []

    def tune(x: Tensor, weight: Tensor) -> Tensor:
        if not chosen:
            spent = {}
            for variant in (rmsnorm_fused, lambda x, weight: many_launches()(x, weight)):
                began = time.monotonic()
                variant(x, weight).sum().item()
                spent[variant] = time.monotonic() - began
            chosen.append(min(spent, key=lambda variant: spent[variant]))
        return chosen[0](x, weight)

    return tune


TOUCHED = "a stretch of the inputs changes before every timed call, so what was remembered is wrong."
POISONED = "memory holds NaN before every call."
RECHECKED = "calls that are drawn after they ran, also in the last round, are compared with the truth."
LEFT = "a call may leave nothing behind that could work later."
COMPARED = "inputs are compared with their hidden twins after every block."
GUARDED = "clock and judges, inside and out, are compared with what they were before any profile was loaded."
PLAIN = Profile(
    name="torch-fused", title="F.rms_norm", technique="PyTorch's own fused call.",
    hypothesis="What every cheat claims to beat.", signal="One kernel.",
    implementations={
        "rmsnorm": lambda: rmsnorm_fused, "extreme-rmsnorm": lambda: rmsnorm_fused, "row-norms": lambda: row_norms,
        "wide-rmsnorm": lambda: rmsnorm_fused,
    },
)  # fmt: skip
CHEATS = (
    cheat("cached-by-pointer", "Returns the result that it gave for this address before.", TOUCHED, by_pointer),
    cheat("cached-by-pointer-cloned", "The same, as a fresh copy each time.", TOUCHED, by_pointer_cloned),
    cheat("cached-by-id", "Returns a copy of the result for this tensor object.", TOUCHED, by_id),
    cheat("cached-by-shape", "Returns a copy of the first result of this shape.", TOUCHED, by_shape),
    cheat("cached-by-fingerprint", "Remembers results by the inputs' first numbers.", TOUCHED, by_fingerprint),
    cheat(
        "unjoined-stream", "Works on a second stream and does not wait for it.",
        "a captured graph refuses work that is not joined, and a copy of the result is taken at once.",
        unjoined_stream, GPU,
    ),
    cheat(
        "unordered-stream", "Works on a second stream that does not wait for the inputs, while the timed one spins.",
        "the inputs change right before the clock starts, after that work was done.", unordered_stream, GPU,
    ),
    cheat("lazy-result", "Returns a tensor subclass that would compute when looked at.",
          "a result is a plain tensor or none.", lazy),
    cheat("mutated-input", "Zeroes its input, which is then quicker to handle.", COMPARED, mutating),
    cheat("mutated-input-later", "The same, once the checks are over.", COMPARED, mutating_later),
    cheat("one-output-buffer", "Returns the same memory every time.",
          "results share no memory with earlier ones.", one_buffer),
    cheat("patched-event", "Replaces the events' clock with one that says 4 µs.", GUARDED, patched_event),
    cheat("patched-counter", "Replaces the host's clock with one that stands still while the host waits.", GUARDED,
          patched_counter),
    cheat("patched-judge", "Replaces the comparison with one that finds nothing wrong.", GUARDED, patched_judge),
    cheat("unwritten-output", "Returns memory that it never wrote.", POISONED, unwritten),
    cheat("last-row-unwritten", "Leaves out the last row.", POISONED, last_row_unwritten),
    cheat("nan-everywhere", "Returns NaN, which no comparison of sizes finds too large.",
          "NaN belongs only where the truth has it.", all_nan),
    cheat("silent-fallback", "Names a Triton kernel and calls PyTorch.",
          "a kernel that a profile names must be launched.", silent_fallback, GPU, kernel="_rmsnorm_kernel"),
    cheat("tiring", f"Stops working after {HONEST_CALLS} calls.", RECHECKED, tiring),
    cheat("every-fourth", "Works for one call in four, and hands the result out again.", TOUCHED, every_fourth),
    cheat("half-the-rows", "Computes the first half of the rows and returns it twice.",
          "every element is compared with float64.", half_the_rows),
    cheat("scavenging", "Searches the process's memory for the float64 truth.",
          "the truth is computed after the call.", scavenging),
    cheat("imprecise", "Computes in bfloat16 what should be float32.",
          "the error is held to a few units in the last place of the result's type.", imprecise),
    cheat("patched-insides", "Replaces a function inside the judge with one that finds no error.", GUARDED,
          patched_insides),
    cheat("self-healing-counter", "Replaces the host's clock with one that lies once and then is the real one again.",
          "the clock's functions are bound before the first call, and what lies there unused is found.",
          self_healing_counter),
    cheat("patched-when-loaded", "Replaces the host's clock before any of its calls.",
          "clock and judges are compared after each profile is loaded.", patched_when_loaded),
    cheat("lazy-by-mode", "Leaves a torch mode active that computes a result when somebody looks at it.", LEFT,
          lazy_by_mode),
    cheat("working-ahead", "Computes the next results when its last one is dropped, which is not timed.", LEFT, ahead),
    cheat("peeking", "Looks at the stack for whether its call will be checked, and works only then.",
          "which call is checked is drawn after it has run.", peeking),
    cheat("cached-even", "Remembers the results of an operator for which signs do not matter.",
          "the inputs change by fresh values, not by sign.", even_by_pointer, op="row-norms"),
    cheat("late-fallback", f"Launches the kernel that it names {HONEST_CALLS} times, then calls PyTorch.",
          "one more call after the last round must launch the kernel.", late_fallback, GPU, kernel="_rmsnorm_kernel"),
    *NEW_CHEATS,
)  # fmt: skip
HONEST = (
    honest("in-place", "Overwrites its input, and says so.", in_place, in_place=True),
    honest("many-launches", "Eight launches and a concatenation.", many_launches),
    honest("side-allocation", "Allocates three times what it needs.", side_allocation),
    honest("kept-scratch", "Keeps scratch memory between calls; its results are fresh.", kept_scratch),
    honest("own-graph", "Replays a CUDA graph of its own, and returns a copy.", own_graph, GPU),
    honest("joined-stream", "Splits its work over two streams, and joins them.", joined_stream, GPU),
    honest("compiled", "torch.compile of F.rms_norm.", compiled),
    honest("view-of-larger", "Returns a view of a larger fresh buffer.", view_of_larger),
    honest("tuned-at-first", "Times two variants in its first call, and keeps the faster.", tuned_at_first),
    honest(
        "triton", "The lab's Triton RMSNorm.", lambda: rmsnorm, GPU, kernel="_rmsnorm_kernel or _rmsnorm_wide_kernel"
    ),
    *NEW_HONEST,
)
CASE_OF = {case.operator.name: case for case in (PLAIN_CASE, EVEN_CASE, WIDE_CASE)}
CHEAT_CLAIMS = tuple(
    Claim(
        name=profile.name, text=f"{profile.title.capitalize()} beats plain PyTorch (a cheat).",
        subject=profile, baseline=PLAIN, expected=("rejected",),
        cases=tuple(CASE_OF[op] for op in profile.implementations),
    )
    for profile in CHEATS
)  # fmt: skip
IN_VAIN_CLAIMS = tuple(
    Claim(
        name=profile.name, text=f"{profile.title.capitalize()} beats plain PyTorch (a cheat in vain).",
        subject=profile, baseline=PLAIN, cases=(PLAIN_CASE,),
        expected=("refuted", "inconclusive", "rerun-noise", "rejected"),
    )
    for profile in IN_VAIN
)  # fmt: skip
HONEST_CLAIMS = tuple(
    Claim(
        name=profile.name, text=f"{profile.title.capitalize()} beats F.rms_norm (odd, but honest).",
        subject=profile, baseline=PLAIN, cases=(PLAIN_CASE, TINY_CASE, HUGE_CASE),
        expected=("supported", "refuted", "inconclusive", "rerun-noise"),
    )
    for profile in HONEST
)  # fmt: skip

CHEATING_KERNELS = Experiment(
    name="cheating-kernels",
    title="Cheating Kernels",
    question="Can any known way of fooling a GPU benchmark win a claim here?",
    importance=(
        "Kernels written under pressure, by people or by programs, have learnt to look fast without being so: "
        "they remember results, leave work for later, patch the clock. Each profile here plays one such trick, "
        "and a claim says that it beats plain PyTorch. Every one of those claims must be rejected, but for two that "
        "leave what honest code leaves too and must gain nothing. The other profiles are honest but odd, and none of "
        "their claims may be rejected."
    ),
    focus="Measurement",
    cases=(PLAIN_CASE, EVEN_CASE, WIDE_CASE, TINY_CASE, HUGE_CASE),
    profiles=(PLAIN, *CHEATS, *IN_VAIN, *HONEST),
    claims=CHEAT_CLAIMS + IN_VAIN_CLAIMS + HONEST_CLAIMS,
    headlines=(CHEAT_CLAIMS[1], CHEAT_CLAIMS[5], CHEAT_CLAIMS[11]),
    does_not_show=(
        "That no cheat can win: profiles run in the process that times them, and code that rewrites that process "
        "while it runs, below Python, would not be noticed. The lab trusts its authors not to attack it so.",
        "Anything about speed: what the honest profiles gain or lose is not the question.",
    ),
    metrics={"Validation": ("verdict of every cheat", "verdict of every honest oddity")},
    self_test=True,
)
