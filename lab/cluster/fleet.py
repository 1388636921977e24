"""The GPUs of one run: each is reached, asked, heard and, where it is lost, reached for again."""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.cluster.link import LAST, Crew, GpuGone, Link
from lab.errors import RunError
from lab.evidence.codec import from_data
from lab.evidence.record import Machine, unlike
from lab.supervisor.resume import TOLD_BY_WORKERS

START_SECONDS = 240.0  # until a GPU answers for the first time: its last user may still be ending
MOST_STARTS = 4  # of one slot
KEPT = "What was measured is kept, and the same command goes on from there"


@dataclass(frozen=True, kw_only=True, slots=True)
class Hello:
    """What a GPU says of itself first. `host` is for messages, and is not journalled."""

    host: str
    model: str
    machine: Machine
    source_digest: str


@dataclass(eq=False, slots=True)
class Gpu:
    """One slot of the crew, and how it stands. A slot whose GPU was lost goes on as another Gpu."""

    slot: int
    starts: int
    link: Link
    place: str  # ends the names of its processes
    hello: Hello | None = None
    prepared: bool = False
    working: bool = False  # it has an order, and has not answered it
    doing: Any = None  # the task of that order
    given: int = 0  # how many it was given

    @property
    def name(self) -> str:
        return f"GPU {self.slot + 1}"

    @property
    def full_name(self) -> str:
        """For messages."""
        return f"{self.name} on {self.host}" if self.hello else self.name

    @property
    def host(self) -> str:
        return self.hello.host if self.hello else ""

    @property
    def gpu_id(self) -> str:
        return self.hello.machine.gpu_id if self.hello else ""


@dataclass(slots=True)
class Fleet:
    """`plan` is the text of the plan's file."""

    crew: Crew
    plan: str
    say: Callable[[str], None]
    gpus: list[Gpu] = field(default_factory=list)  # those that are not lost
    _events: "queue.Queue[tuple[Gpu, Any]]" = field(default_factory=queue.Queue)
    _started: int = 0

    def start(self, slot: int, starts: int = 1) -> None:
        """Reach for a GPU. Call from the main thread."""
        self._started += 1
        gpu = Gpu(slot, starts, self.crew.start(slot), place=f"-{self._started}")
        self.gpus.append(gpu)
        self.ask(gpu, {"plan": self.plan, "place": gpu.place})

    def ask(self, gpu: Gpu, order: Mapping[str, Any]) -> None:
        """Its frames come from `hear`."""
        gpu.working = True
        threading.Thread(target=self._listen, args=(gpu, order), daemon=True).start()

    def hear(self) -> tuple[Gpu, str, Any]:
        """The next (GPU, kind, content) of one that is not lost. RunError where none answers any more."""
        while self.gpus:
            only_new = not any(gpu.hello and gpu.working for gpu in self.gpus)
            try:
                gpu, frame = self._events.get(timeout=START_SECONDS if only_new else None)
            except queue.Empty:
                silent = ", ".join(gpu.name for gpu in self.gpus if not gpu.hello)
                raise RunError(f"{silent}: no answer for {START_SECONDS:.0f} s. {KEPT}") from None
            if gpu in self.gpus:
                gpu.working = gpu.working and frame["kind"] not in LAST
                return gpu, frame["kind"], frame["content"]
        raise RunError(f"no GPU of this run is left. {KEPT}")

    def drop(self, gpu: Gpu, again: bool) -> None:
        """It is lost, or not wanted. `again`: reach for one in its place."""
        gpu.link.end()
        self.gpus.remove(gpu)
        if again and gpu.starts < MOST_STARTS:
            self.start(gpu.slot, gpu.starts + 1)

    def _listen(self, gpu: Gpu, order: Mapping[str, Any]) -> None:
        try:
            for frame in gpu.link.ask(order):
                self._events.put((gpu, frame))
        except GpuGone as gone:
            self._events.put((gpu, {"kind": "gone", "content": str(gone)}))
        except BaseException as problem:  # an error of a thread would go unseen, and the run wait for ever
            self._events.put((gpu, {"kind": "gone", "content": f"{type(problem).__name__} where it was asked"}))


def hello_of(content: Any) -> Hello:
    return from_data(Hello, content, "hello")


def of_model(gpus: Sequence[Gpu], wanted: str) -> list[Gpu]:
    """Those of the model whose name contains `wanted`. RunError, which names every GPU, where there are none or, among
    them, several models: times of different models are never pooled."""
    models: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        if gpu.hello:
            models.setdefault(gpu.hello.model, []).append(gpu)
    there = "; ".join(f"{model}: {', '.join(gpu.full_name for gpu in several)}" for model, several in models.items())
    fitting = [model for model in models if wanted.casefold() in model.casefold()]
    if not fitting:
        raise RunError(f"--gpu-model {wanted}: there is no such GPU, but {there or 'none at all'}")
    if len(fitting) > 1:
        raise RunError(
            f"a run has GPUs of one model, and here are {len(models)}: {there}. Choose one by a part of its name: "
            "--gpu-model NAME"
        )
    return models[fitting[0]]


def refuse_unlike(gpus: Sequence[Gpu]) -> None:
    """RunError, which names the host, where one would measure other code or differs in more than its board."""
    first, *others = (gpu for gpu in gpus if gpu.hello)
    for other in others:
        if changes := differences(first, other):
            raise RunError(
                f"{other.full_name} is not like {first.full_name}: {'; '.join(changes)}. All hosts of a run need the "
                "same tree, software and kind of machine; leave the others out of the cluster"
            )


def differences(first: Gpu, other: Gpu) -> list[str]:
    """Why the two cannot measure one run."""
    assert first.hello
    assert other.hello
    changes = unlike(first.hello.machine, other.hello.machine, TOLD_BY_WORKERS, several_gpus=True)
    if first.hello.model != other.hello.model:
        changes.append(f"the model was {first.hello.model!r}, is {other.hello.model!r}")
    if first.hello.source_digest != other.hello.source_digest:
        changes.append("its measured code is another")
    return changes
