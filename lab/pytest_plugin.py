"""The pytest plugin: a test measures a claim, and fails where the verdict is not the one that it requires.

    def test_gelu(kernel_evidence):
        run = kernel_evidence(F.gelu, against=composed, shapes=[(1024, 4096)], reference=lambda x: F.gelu(x.double()),
                              tolerance=16)
        run.require("supported")

    @pytest.mark.kernel_evidence(sweeps=5)
    def test_gelu_of_the_project(kernel_evidence):
        kernel_evidence("gelu").require("not-refuted")

As with pytest-benchmark the fixture measures when it is called. --kernel-evidence-skip leaves such tests out, and
--kernel-evidence-against OLD_RUN holds each run against the run of that id too, as `lab compare` does.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lab.notebook import Run

MARK = "kernel_evidence"
NOT_A_SLUG = re.compile(r"[^a-z0-9]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernel evidence")
    group.addoption("--kernel-evidence-skip", action="store_true", help="skip tests that measure kernels")
    group.addoption("--kernel-evidence-sweeps", type=int, metavar="K", help="fresh processes of each run")
    group.addoption("--kernel-evidence-against", metavar="RUN", help="fail where anything is slower than in this run")
    group.addoption("--kernel-evidence-fail-if-slower", type=float, default=0.03, metavar="SHARE", help="default: 0.03")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARK}(sweeps=None, device='auto'): measures kernels; options of the fixture's runs"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--kernel-evidence-skip"):
        return
    skip = pytest.mark.skip(reason="--kernel-evidence-skip was given")
    for item in items:
        if item.get_closest_marker(MARK) or MARK in getattr(item, "fixturenames", ()):
            item.add_marker(skip)


@pytest.fixture
def kernel_evidence(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., "Run"]:
    """Measures an experiment and returns the run.

    Call it with a draft, an experiment or the name of an experiment of the project. Or call it with a function, its
    rival `against`, the arguments of `lab.experiment` (shapes, reference, dtypes), and `by`, the claimed speed-up.
    """

    def measured(asked: Any, **options: Any) -> "Run":
        from lab.notebook import Run, measure

        mark = request.node.get_closest_marker(MARK)
        sweeps = request.config.getoption("--kernel-evidence-sweeps")
        how = {**(mark.kwargs if mark else {}), **({"sweeps": sweeps} if sweeps else {})}
        how |= {name: options.pop(name) for name in ("sweeps", "device", "run_id") if name in options}
        how.setdefault("run_id", NOT_A_SLUG.sub("-", request.node.nodeid.lower()).strip("-")[-70:].strip("-"))
        runs = tmp_path_factory.mktemp("runs")
        run: Run = measure(_experiment(asked, options), runs=runs, **how)
        if against := request.config.getoption("--kernel-evidence-against"):
            _fail_if_slower(run, against, request.config.getoption("--kernel-evidence-fail-if-slower"))
        return run

    return measured


def _experiment(asked: Any, options: dict[str, Any]) -> Any:
    import lab
    from lab.errors import DefinitionError

    if isinstance(asked, str):
        from lab.definition.catalogue import choose_experiments

        (asked,) = choose_experiments([asked])
    if not callable(asked):
        if options:
            raise DefinitionError(
                f"kernel_evidence: {', '.join(options)}: only for a function; an experiment defines its own; "
                "accepted are sweeps, device and run_id"
            )
        return asked
    if "against" not in options:
        raise DefinitionError("kernel_evidence: against is not given; accepted is the function to compare with")
    rival, by = options.pop("against"), options.pop("by", 1.02)
    draft = lab.experiment(options.pop("name", "test"), **options)
    draft.profile("baseline", rival, baseline=True)
    draft.profile("subject", asked)
    draft.claim("subject", by=by)
    return draft


def _fail_if_slower(run: "Run", older: str, limit: float) -> None:
    from lab.gate_report import describe_gate
    from lab.notebook import load
    from lab.verdict.gate import Outcome, compare_runs, outcome_of

    before = load(older)
    compared = compare_runs(before.result, run.result, limit)
    if outcome_of(compared) is Outcome.REGRESSION:
        pytest.fail(_lines(list(describe_gate(before.result, run.result, compared, limit))), pytrace=False)


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines)
