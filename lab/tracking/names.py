"""Short names of cases, machines and runs, for MLflow, which cuts long ones off. Pure."""

from lab.definition.plan import PlannedCase
from lab.evidence.record import Machine
from lab.verdict.results import RunResult
from lab.website.addresses import DTYPES, measured_on


def case_name(case: PlannedCase) -> str:
    """'4096x8192 f16 rmsnorm': what tells cases apart comes first."""
    return f"{'x'.join(map(str, case.shape))} {DTYPES.get(case.dtype, case.dtype)} {case.op}"


def machine_name(machine: Machine) -> str:
    return measured_on(machine.device, machine.gpu, machine.cpu, machine.cpu_count)


def run_title(run: RunResult) -> str:
    """'night-3 on NVIDIA H100 80GB HBM3', and plainly where it is unfinished or not of a GPU."""
    title = f"{run.plan.run_id} on {machine_name(run.machine)}"
    if run.machine.device == "cpu":
        title += " (CPU evidence: it says nothing of any GPU)"
    return title if run.finished_utc else title + " (unfinished)"
