"""Which GPU is asked for what, and what becomes of one that is lost, with GPUs that only say what a test wants."""

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from factory import SMALL, machine, plan_of, records_of, small_experiment

from lab.cluster.fleet import MOST_STARTS
from lab.cluster.link import GpuGone
from lab.cluster.run import MOST_LOSSES, run_on_several
from lab.definition.plan import Plan, Protocol
from lab.errors import RunError
from lab.evidence import journal
from lab.evidence.codec import to_data
from lab.evidence.record import Cell, Counters, LostGpu, Record, RunFinish, SweepStart
from lab.evidence.source import source_digest
from lab.supervisor.resume import open_run
from lab.supervisor.run import run
from lab.verdict.judge_run import load_run

CASES = tuple(dataclasses.replace(SMALL, shape=(rows, 128)) for rows in (8, 16, 32, 64))
CLAIM = small_experiment().claims[0]
EXPERIMENT = small_experiment(
    cases=CASES, claims=(dataclasses.replace(CLAIM, cases=CASES),), headlines=(dataclasses.replace(CLAIM, cases=CASES),)
)
SECONDS = {"fast": 20e-6, "plain": 24e-6}
Behaviour = Callable[["ScriptedGpu", Mapping[str, Any], Iterator[Any]], Iterator[Any]]


def several_plan(run_id: str = "r", sweeps: int = 2, **how: Any) -> Plan:
    most = how.pop("most_sweeps", sweeps)
    protocol = Protocol(sweeps=sweeps, most_sweeps=most, target_half_width=0.02)
    return plan_of(run_id, experiments=[EXPERIMENT], protocol=protocol, **how)


def honest(gpu: "ScriptedGpu", order: Mapping[str, Any], frames: Iterator[Any]) -> Iterator[Any]:
    yield from frames


def lost_after(count: int, *, at: str = "sweep", starts: Sequence[int] = (1,), slot: int = 0) -> Behaviour:
    """A GPU of this slot, in these of its starts, is gone after so many frames of an answer."""

    def behave(gpu: ScriptedGpu, order: Mapping[str, Any], frames: Iterator[Any]) -> Iterator[Any]:
        if order.get("kind", "hello") != at or gpu.slot != slot or gpu.start not in starts:
            yield from frames
            return
        for number, frame in enumerate(frames):
            if number == count:
                raise GpuGone("the test lost it")
            yield frame

    return behave


class ScriptedGpu:
    def __init__(self, crew: "ScriptedCrew", slot: int, start: int) -> None:
        self.crew, self.slot, self.start = crew, slot, start
        self.ended = threading.Event()

    def ask(self, order: Mapping[str, Any]) -> Iterator[Any]:
        with self.crew.lock:
            self.crew.asked.append((self.slot, dict(order)))
            self.crew.measuring += order.get("kind") == "sweep"
            self.crew.most_measuring = max(self.crew.most_measuring, self.crew.measuring)
        try:
            yield from self.crew.behave(self, order, self._answer(order))
        finally:
            with self.crew.lock:
                self.crew.measuring -= order.get("kind") == "sweep"

    def end(self) -> None:
        self.ended.set()

    def _answer(self, order: Mapping[str, Any]) -> Iterator[Any]:
        if "plan" in order:
            yield _frame("hello", self.crew.hello(self.slot))
        elif order["kind"] == "prepare":
            yield _frame("prepared", 1.5)
        elif order["kind"] == "sweep":
            yield from self._sweep(order)
            yield _frame("file", ["logs/sweep-0.log", "aGVsbG8="])
            yield _frame("done", 0.0)
        else:
            counters = Counters(
                experiment=order["experiment"], case=CASES[0].name, profile="fast", outcome="blocked", reason="busy",
                kernels=(), ncu="", report_sha256="", blocker="busy",
            )  # fmt: skip
            yield _records(counters)
            yield _frame("done", 0.5)

    def _sweep(self, order: Mapping[str, Any]) -> Iterator[Any]:
        """A process that measures case by case: a frame for its start, then one for each case."""
        process = f"{order['sweep']}-{1000 * (self.slot + 1) + self.start}-{len(self.crew.asked)}"
        mine = [
            dataclasses.replace(record, process=process)
            for record in self.crew.records
            if getattr(record, "sweep", None) == order["sweep"] and not isinstance(record, SweepStart)
        ]
        yield _records(
            SweepStart(
                sweep=order["sweep"], process=process, machine=self.crew.machine_of(self.slot),
                launch_floor_seconds=2e-6, started_utc="2026-01-02T03:04:05Z",
            )
        )  # fmt: skip
        for case in sorted({case for _, case, _ in order["wanted"]}):
            yield _records(*(record for record in mine if getattr(record, "case", "") == case))


class ScriptedCrew:
    """`models` and `hosts` by slot. What all GPUs measure is prepared: the records of a long run on one."""

    def __init__(
        self, plan: Plan, size: int = 2, behave: Behaviour = honest, models: Sequence[str] = (),
        hosts: Sequence[str] = (), **facts: Any,
    ) -> None:  # fmt: skip
        self.size, self.behave, self.models, self.hosts, self.facts = size, behave, models, hosts, facts
        longest = dataclasses.replace(plan, protocol=dataclasses.replace(plan.protocol, sweeps=9))
        self.records = records_of(longest, SECONDS)
        self.lock = threading.Lock()
        self.asked: list[tuple[int, dict[str, Any]]] = []
        self.started: list[ScriptedGpu] = []
        self.measuring = self.most_measuring = 0

    def __enter__(self) -> "ScriptedCrew":
        return self

    def __exit__(self, *error: object) -> None:
        for gpu in self.started:
            gpu.end()

    def start(self, slot: int) -> ScriptedGpu:
        gpu = ScriptedGpu(self, slot, 1 + sum(each.slot == slot for each in self.started))
        self.started.append(gpu)
        return gpu

    def machine_of(self, slot: int) -> Any:
        return machine(gpu_id=f"board-{slot}", environment={"CUDA_VISIBLE_DEVICES": str(slot)})

    def hello(self, slot: int) -> dict[str, Any]:
        facts = {
            "host": self.hosts[slot] if self.hosts else "a-host", "machine": to_data(self.machine_of(slot)),
            "model": self.models[slot] if self.models else "NVIDIA H100", "source_digest": source_digest(),
        }  # fmt: skip
        return facts | (self.facts if slot else {})

    def orders(self, kind: str) -> list[tuple[int, dict[str, Any]]]:
        return [(slot, order) for slot, order in self.asked if order.get("kind") == kind]


def _frame(kind: str, content: Any) -> dict[str, Any]:
    return {"kind": kind, "content": content}


def _records(*records: Record) -> dict[str, Any]:
    return _frame("records", [[type(record).__name__, to_data(record)] for record in records])


def measure(crew: ScriptedCrew, plan: Plan, directory: Path, **how: Any) -> tuple[Record, ...]:
    run_on_several(plan, directory, crew, how.pop("say", lambda text: None), **how)
    contents = journal.read(directory / journal.NAME)
    assert contents.damages == ()
    assert isinstance(contents.records[-1], RunFinish)
    return contents.records


def cells_of(records: Sequence[Record]) -> Counter[tuple[int, str, str]]:
    return Counter((r.sweep, r.case, r.profile) for r in records if isinstance(r, Cell))


def losses_of(records: Sequence[Record]) -> list[LostGpu]:
    return [record for record in records if isinstance(record, LostGpu)]


def every_cell(sweeps: int) -> set[tuple[int, str, str]]:
    return {(sweep, case.name, name) for sweep in range(sweeps) for case in CASES for name in ("fast", "plain")}


def test_every_cell_is_measured_once_and_the_journal_names_every_board(tmp_path: Path) -> None:
    plan = several_plan()
    crew = ScriptedCrew(plan)
    records = measure(crew, plan, tmp_path / "r")
    assert cells_of(records) == dict.fromkeys(every_cell(2), 1)
    assert load_run(tmp_path / "r").boards == ("board-0", "board-1")
    assert load_run(tmp_path / "r").damages == ()
    assert len(crew.orders("sweep")) == 4
    assert (tmp_path / "r" / "logs" / "sweep-0.log").read_text() == 4 * "hello"


def test_both_sides_of_a_ratio_come_from_one_process(tmp_path: Path) -> None:
    plan = several_plan()
    records = measure(ScriptedCrew(plan, size=3), plan, tmp_path / "r")
    processes: dict[tuple[int, str], set[str]] = {}
    for cell in records:
        if isinstance(cell, Cell):
            processes.setdefault((cell.sweep, cell.case), set()).add(cell.process)
    assert {len(names) for names in processes.values()} == {1}


def test_all_gpus_are_prepared_before_any_measures(tmp_path: Path) -> None:
    plan = several_plan()
    crew = ScriptedCrew(plan, size=3)
    measure(crew, plan, tmp_path / "r")
    kinds = [order.get("kind", "hello") for _, order in crew.asked]
    assert kinds[:6] == ["hello"] * 3 + ["prepare"] * 3
    assert {order["sharing"] for _, order in crew.orders("prepare")} == {3}
    assert len(crew.orders("prepare")[0][1]["cells"]) == 8
    assert crew.orders("prepare")[0][1]["following"] == [0, 1]


def test_what_a_lost_gpu_had_measured_stays_and_the_rest_is_measured_again(tmp_path: Path) -> None:
    plan = several_plan()
    crew = ScriptedCrew(plan, behave=lost_after(2))  # the start of its process and one of two cases
    said: list[str] = []
    records = measure(crew, plan, tmp_path / "r", say=said.append)
    assert cells_of(records) == dict.fromkeys(every_cell(2), 1)
    (loss,) = losses_of(records)
    assert (loss.gpu_id, loss.during, loss.reason) == ("board-0", "sweep 1", "the test lost it")
    assert "GPU 1 on a-host is lost: the test lost it" in said
    assert any(len({key[1] for key in order["wanted"]}) == 1 for _, order in crew.orders("sweep"))
    assert [gpu.slot for gpu in crew.started] == [0, 1, 0]
    assert load_run(tmp_path / "r").damages == ()


def test_the_others_do_all_of_it_where_no_other_comes_in_its_place(tmp_path: Path) -> None:
    plan = several_plan()

    def behave(gpu: ScriptedGpu, order: Mapping[str, Any], frames: Iterator[Any]) -> Iterator[Any]:
        if gpu.start > 1:  # as an actor that no node has room for
            gpu.ended.wait()
            raise GpuGone("ended")
        yield from lost_after(1)(gpu, order, frames)

    records = measure(ScriptedCrew(plan, behave=behave), plan, tmp_path / "r")
    assert cells_of(records) == dict.fromkeys(every_cell(2), 1)


def test_a_gpu_that_is_lost_before_the_run_begins_is_done_without(tmp_path: Path) -> None:
    plan = several_plan()
    crew = ScriptedCrew(plan, behave=lost_after(0, at="hello"))
    assert cells_of(measure(crew, plan, tmp_path / "r")) == dict.fromkeys(every_cell(2), 1)
    assert load_run(tmp_path / "r").boards == ("board-1",)


def test_a_gpu_that_is_lost_while_it_loads_is_on_record(tmp_path: Path) -> None:
    plan = several_plan()
    records = measure(ScriptedCrew(plan, behave=lost_after(0, at="prepare")), plan, tmp_path / "r")
    assert [loss.during for loss in losses_of(records)] == ["loading"]
    assert cells_of(records) == dict.fromkeys(every_cell(2), 1)


def test_a_part_that_takes_gpus_down_again_and_again_ends_the_run(tmp_path: Path) -> None:
    plan = several_plan(sweeps=1)
    always = lost_after(1, starts=range(1, 99))
    crew = ScriptedCrew(plan, size=1, behave=always)
    with pytest.raises(RunError, match=rf"{MOST_LOSSES} GPUs were lost one after another .* the test lost it\."):
        measure(crew, plan, tmp_path / "r")
    assert all(gpu.ended.is_set() for gpu in crew.started)
    crew = ScriptedCrew(plan, size=1)
    assert cells_of(measure(crew, plan, tmp_path / "r")) == dict.fromkeys(every_cell(1), 1)


def test_a_gpu_that_never_loads_is_not_tried_for_ever(tmp_path: Path) -> None:
    plan = several_plan()
    always = lost_after(0, at="prepare", starts=range(1, 99))
    crew = ScriptedCrew(plan, size=1, behave=always)
    with pytest.raises(RunError, match="no GPU of this run is left"):
        measure(crew, plan, tmp_path / "r")
    assert len(crew.started) == MOST_STARTS


def test_what_a_lost_gpu_still_says_is_not_heard(tmp_path: Path) -> None:
    plan = several_plan(sweeps=1)
    late = threading.Event()

    def behave(gpu: ScriptedGpu, order: Mapping[str, Any], frames: Iterator[Any]) -> Iterator[Any]:
        if gpu.slot == 0 and gpu.start == 1 and order.get("kind") == "sweep":
            yield next(frames)
            yield _frame("gone", "its node does not answer")
            gpu.ended.wait()
            yield from frames  # as the node is there again
            late.set()
            return
        if order.get("kind") == "sweep":
            late.wait()  # so that nobody's cells come before what must not be heard
        yield from frames

    crew = ScriptedCrew(plan, behave=behave)
    assert cells_of(measure(crew, plan, tmp_path / "r")) == dict.fromkeys(every_cell(1), 1)
    assert late.is_set()


@pytest.mark.parametrize(("model", "boards"), [("h100", ("board-0", "board-2")), ("A100", ("board-1",))])
def test_gpus_of_one_model_are_chosen_by_a_part_of_its_name(
    tmp_path: Path, model: str, boards: tuple[str, ...]
) -> None:
    plan = several_plan()
    crew = ScriptedCrew(plan, size=3, models=("NVIDIA H100", "NVIDIA A100", "NVIDIA H100"))
    measure(crew, plan, tmp_path / "r", model=model)
    assert load_run(tmp_path / "r").boards == boards


def test_gpus_of_two_models_are_refused_with_the_names_of_their_hosts(tmp_path: Path) -> None:
    plan = several_plan()
    crew = ScriptedCrew(plan, size=3, models=("NVIDIA H100", "NVIDIA A100", "NVIDIA H100"), hosts=("one", "two", "one"))
    with pytest.raises(RunError) as refusal:
        measure(crew, plan, tmp_path / "r")
    assert str(refusal.value) == (
        "a run has GPUs of one model, and here are 2: NVIDIA H100: GPU 1 on one, GPU 3 on one; NVIDIA A100: GPU 2 on "
        "two. Choose one by a part of its name: --gpu-model NAME"
    )
    assert not crew.orders("sweep")
    with pytest.raises(RunError, match="--gpu-model B200: there is no such GPU, but NVIDIA H100: GPU 1 on one"):
        measure(crew, plan, tmp_path / "other", model="B200")


@pytest.mark.parametrize(
    ("facts", "difference"),
    [
        ({"source_digest": "0" * 64}, r"its measured code is another"),
        ({"machine": to_data(machine(gpu_id="x", driver="1.2"))}, r"driver was '580.159.04', is '1.2'"),
    ],
)
def test_hosts_that_differ_are_refused_by_name(tmp_path: Path, facts: dict[str, Any], difference: str) -> None:
    plan = several_plan()
    crew = ScriptedCrew(plan, hosts=("one", "two"), **facts)
    with pytest.raises(RunError, match=rf"GPU 2 on two is not like GPU 1 on one: {difference}. All hosts of a run"):
        measure(crew, plan, tmp_path / "r")
    assert not crew.orders("sweep")


def test_a_worker_that_tells_of_another_machine_ends_the_run(tmp_path: Path) -> None:
    """Torch may say what the driver did not."""
    plan = several_plan()
    crew = ScriptedCrew(plan)
    crew.machine_of = lambda slot: machine(gpu_id=f"board-{slot}", cuda=f"13.{slot}")  # type: ignore[method-assign]
    crew.hello = lambda slot: {  # type: ignore[method-assign]
        "host": "a-host", "machine": to_data(machine(gpu_id=f"board-{slot}")), "model": "NVIDIA H100",
        "source_digest": source_digest(),
    }  # fmt: skip
    with pytest.raises(RunError, match=r"GPU \d on a-host: .*cuda was '13.\d', is '13.\d'"):
        measure(crew, plan, tmp_path / "r")


def test_in_turn_only_one_gpu_measures_at_a_time_and_all_have_their_share(tmp_path: Path) -> None:
    plan = several_plan(sweeps=3)
    crew = ScriptedCrew(plan, size=3)
    measure(crew, plan, tmp_path / "r", in_turn=True)
    assert crew.most_measuring == 1
    assert set(Counter(slot for slot, _ in crew.orders("sweep")).values()) == {3}


def test_an_interrupted_run_goes_on_with_other_gpus_and_only_with_several(tmp_path: Path) -> None:
    plan = several_plan(sweeps=2)

    def say(text: str) -> None:
        if "[3/" in text:
            raise KeyboardInterrupt

    crew = ScriptedCrew(plan)
    with pytest.raises(KeyboardInterrupt):
        measure(crew, plan, tmp_path / "r", say=say)
    assert all(gpu.ended.is_set() for gpu in crew.started)
    before = journal.read(tmp_path / "r" / journal.NAME).records
    with pytest.raises(RunError, match="was begun on several GPUs, and is to go on with one; use the --executor and"):
        run(plan, tmp_path / "r", lambda text: None)
    said: list[str] = []
    records = measure(ScriptedCrew(plan, size=3), plan, tmp_path / "r", say=said.append)
    assert records[: len(before)] == before
    assert cells_of(records) == dict.fromkeys(every_cell(2), 1)
    assert f"resuming: {len(cells_of(before))} cells are measured" in said


def test_a_run_on_one_gpu_does_not_go_on_with_several(tmp_path: Path) -> None:
    plan = several_plan()
    (tmp_path / "r").mkdir()
    open_run(plan, tmp_path / "r")
    with pytest.raises(RunError, match="was begun on one GPU, and is to go on with several"):
        run_on_several(plan, tmp_path / "r", ScriptedCrew(plan), lambda text: None)


def test_extra_sweeps_are_measured_until_cases_are_precise(tmp_path: Path) -> None:
    plan = several_plan(sweeps=3, most_sweeps=5)
    crew = ScriptedCrew(plan)
    crew.records = records_of(
        dataclasses.replace(plan, protocol=dataclasses.replace(plan.protocol, sweeps=9)), SECONDS, noise=0.4
    )
    said: list[str] = []
    records = measure(crew, plan, tmp_path / "r", say=said.append)
    assert [text for text in said if "another" in text] == [
        f"{2 * len(CASES)} cells of {len(CASES)} cases are measured in another sweep"
    ] * 2
    assert {sweep for sweep, _, _ in cells_of(records)} == set(range(5))
    assert max(cells_of(records).values()) == 1
    order = [order["sweep"] for _, order in crew.orders("sweep")]
    assert order == sorted(order)


def test_counters_are_taken_an_experiment_at_a_time_and_one_checks_the_flush(tmp_path: Path) -> None:
    two = [EXPERIMENT, dataclasses.replace(EXPERIMENT, name="doubling-again")]
    protocol = Protocol(sweeps=1, most_sweeps=1)
    plan = plan_of("r", experiments=two, protocol=protocol, profiling=True)
    crew = ScriptedCrew(plan, behave=lost_after(0, at="explain"))
    records = measure(crew, plan, tmp_path / "r")
    assert Counter(r.experiment for r in records if isinstance(r, Counters)) == {e.name: 1 for e in two}
    asked = [(order["experiment"], order["flush"]) for _, order in crew.orders("explain")]
    assert Counter(asked)["doubling", True] in (1, 2)
    assert sum(flush for _, flush in set(asked)) == 1
    assert [loss.during for loss in losses_of(records)] in ([f"counters of {e.name}"] for e in two)


@pytest.mark.parametrize(("hosts", "at_once"), [(("one",) * 3, 1), (("one", "two", "one"), 2)])
def test_one_gpu_of_a_host_takes_counters_at_a_time(tmp_path: Path, hosts: tuple[str, ...], at_once: int) -> None:
    several = [dataclasses.replace(EXPERIMENT, name=f"doubling-{number}") for number in range(4)]
    plan = plan_of("r", experiments=several, protocol=Protocol(sweeps=1, most_sweeps=1), profiling=True)
    met = threading.Barrier(at_once)  # those that may do it at once wait for one another, so that they are seen
    lock = threading.Lock()
    at_it: Counter[str] = Counter()
    most: Counter[str] = Counter()

    def behave(gpu: ScriptedGpu, order: Mapping[str, Any], frames: Iterator[Any]) -> Iterator[Any]:
        if order.get("kind") != "explain":
            yield from frames
            return
        host = hosts[gpu.slot]
        with lock:
            at_it[host] += 1
            most[host] = max(most[host], at_it[host])
        met.wait(600)
        *before, last = frames
        yield from before
        with lock:
            at_it[host] -= 1
        yield last

    crew = ScriptedCrew(plan, size=3, behave=behave, hosts=hosts)
    records = measure(crew, plan, tmp_path / "r")
    assert most == dict.fromkeys(hosts, 1)
    assert len([record for record in records if isinstance(record, Counters)]) == len(several)


def test_a_gpu_is_given_what_its_sweep_rests_on_without_samples(tmp_path: Path) -> None:
    plan = several_plan(sweeps=2)
    crew = ScriptedCrew(plan, size=1)
    measure(crew, plan, tmp_path / "r")
    _, order = crew.orders("sweep")[1]
    kinds = Counter(kind for kind, _ in order["records"])
    assert kinds == {"RunStart": 1, "SweepStart": 1, "Cell": 8}
    assert all(data["timings"] == [] for kind, data in order["records"] if kind == "Cell")


@pytest.mark.parametrize("name", ["../journal.jsonl", "journal.jsonl", "logs/../plan.json", "/tmp/x", "logs/a/b"])
def test_a_file_goes_to_logs_and_reports_only(tmp_path: Path, name: str) -> None:
    plan = several_plan()

    def behave(gpu: ScriptedGpu, order: Mapping[str, Any], frames: Iterator[Any]) -> Iterator[Any]:
        if order.get("kind") == "sweep":
            yield _frame("file", [name, "aGVsbG8="])
        yield from frames

    with pytest.raises(RunError, match="a GPU sent a file called"):
        measure(ScriptedCrew(plan, behave=behave), plan, tmp_path / "r")


def test_a_refusal_names_the_gpu_and_ends_the_run(tmp_path: Path) -> None:
    plan = several_plan()

    def behave(gpu: ScriptedGpu, order: Mapping[str, Any], frames: Iterator[Any]) -> Iterator[Any]:
        yield from [_frame("refused", "another run is on this GPU")] if gpu.slot else frames

    with pytest.raises(RunError, match="GPU 2: another run is on this GPU"):
        measure(ScriptedCrew(plan, behave=behave), plan, tmp_path / "r")
