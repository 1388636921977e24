"""`lab benchmark`, `plan`, `run` and `finish`: from definitions to a run on disk."""

import argparse
import shlex
from collections.abc import Iterator, Sequence

from lab.commands.adding import RUN, Add
from lab.commands.judging import tell_verdicts
from lab.commands.plan_of_options import plan_of
from lab.commands.publishing import preview
from lab.commands.runs import directory_of, in_words, say, tell, tell_lines
from lab.commands.tracking import track
from lab.definition.plan import Plan
from lab.errors import EvidenceError, LabError, MissingPackage, PlanError
from lab.options import add_gpu_options, add_host_options, add_plan_options, without_host_options
from lab.project import project

MOST_FILES, MOST_LEFT_OUT = 3, 5  # that are named


def add_commands(add: Add) -> None:
    sub = add("benchmark", benchmark, "plan, measure, journal, track, judge and preview: the main job")
    add_plan_options(sub)
    add_gpu_options(sub)
    add_host_options(sub)
    sub.add_argument("--dry-run", action="store_true", help="show the plan, or with --host every command, and stop")
    showing = add("plan", plan, "show what a run would measure, and measure nothing")
    add_plan_options(showing, run_id="plan")
    add_gpu_options(showing)
    measuring = add("run", run, "measure and journal only: needs neither network nor MLflow")
    add_plan_options(measuring)
    add_gpu_options(measuring)
    ending = add("finish", finish, "end a run that cannot go on, such as one whose box is gone; what it lacks is shown")
    ending.add_argument("run", metavar="RUN", help=RUN)
    ending.add_argument("--because", required=True, metavar="WHY", help="one line, which the run's pages show")


def benchmark(options: argparse.Namespace) -> None:
    """The whole journey: plan, measure, track, judge, preview."""
    from lab.verdict.judge_run import load_run

    if options.host:
        measure_there(options)
    else:
        _refuse_without_host(options)
        plan(options)
        if not options.dry_run:
            run(options)
    if options.dry_run:
        return
    directory = project().runs / options.run_id
    options.runs = [str(directory)]
    tell_verdicts(load_run(directory))
    problems = []
    for name, stage in (("track", track), ("preview", preview)):
        try:
            stage(options)
        except MissingPackage as missing:
            say(f"{missing}; copy {directory} to a machine that has it, and run there: lab {name} RUN_DIRECTORY")
        except (LabError, OSError) as problem:
            message = in_words(problem) if isinstance(problem, OSError) else problem
            problems.append(f"{message} (then: lab {name} {options.run_id})")
    if problems:
        raise LabError("the run is measured and kept, but: " + "; ".join(problems))
    ui, publish = map(project().script, ("ui", "publish"))
    say(f"browse it: {ui}    publish it: {publish} {options.run_id}")


def measure_there(options: argparse.Namespace) -> None:
    """Measures on another box; the run comes back into `runs`. With --dry-run it only shows the commands."""
    from lab.definition.catalogue import choose_experiments
    from lab.definition.planning import check_run_id
    from lab.remote.box import box_of
    from lab.remote.measure import Journey, measure_on_box

    check_run_id(options.run_id)
    choose_experiments(options.experiment or ())
    here = project()
    journey = Journey(
        box=box_of(options.host, here.root.name, options.ssh),
        root=here.root,
        runs=here.runs.absolute(),
        run_id=options.run_id,
        command=command_there(without_host_options(options.given), options.host_python),
        left_out=tuple(f"/{folder}/" for folder in (here.settings.runs, here.settings.site, here.settings.evidence)),
        up=options.up,
        down=options.down,
    )
    if options.dry_run:
        for about, command in journey.steps():
            tell(f"# {about}\n{command}")
        return
    measure_on_box(journey, say)


# In one process, since loading PyTorch and the definitions takes seconds. What is installed there may be of another
# version, and knows these two commands.
PLAN_AND_RUN = """
import sys
from lab.cli import main
sys.exit(main(["plan", *sys.argv[1:]]) or main(["run", *sys.argv[1:]]))
""".strip()


def command_there(arguments: Sequence[str], python: str) -> str:
    """The shell command that plans and measures in the project's folder on a box."""
    measure = f'exec "$lab_python" -c {shlex.quote(PLAN_AND_RUN)} "$@"'
    if project().is_the_labs_own:
        prepare = (f"export LAB_PYTHON={shlex.quote(python)}; " if python else "") + "source scripts/setup"
    else:
        prepare = f"lab_python={shlex.quote(python or 'python3')}"
    return shlex.join(["bash", "-c", f"{prepare} && {measure}", "lab", *arguments])


def _refuse_without_host(options: argparse.Namespace) -> None:
    for name in ("up", "down", "host_python"):
        if getattr(options, name):
            raise PlanError(f"--{name.replace('_', '-')} is for a run on another box; name it with --host USER@BOX")


def plan(options: argparse.Namespace) -> None:
    from lab.cluster.choice import crew_of
    from lab.definition.catalogue import file_of
    from lab.definition.prose import lacking_words
    from lab.overview import describe_plan
    from lab.verdict.judge import FEWEST_SWEEPS

    planned = plan_of(options)
    if planned.device == "cpu":  # a plan for GPUs may be made where there are none
        crew_of(options, planned.device)
    tell_lines(_left_out(options, planned))
    tell_lines(describe_plan(planned))
    if planned.protocol.sweeps < FEWEST_SWEEPS:
        tell(f"  no verdicts: {FEWEST_SWEEPS} sweeps are needed to judge")
    tell_lines(_lacking_commit())
    for experiment in planned.experiments:
        if lacking := lacking_words(experiment):
            tell(f"  cannot be published yet: {file_of(experiment.name)}: {experiment.name} lacks {lacking}")


def _lacking_commit() -> Iterator[str]:
    """A line where no commit has the source that would be measured: after measuring it is too late to make one."""
    from lab.evidence.source import NoCommit, NoRepository, uncommitted

    try:
        changed = uncommitted()
    except NoRepository:  # a box has a copy of a repository's files, and the run comes back to it
        yield (
            "  no git repository here: results cannot be tied to a commit; commit first, or measure a copy of a "
            "committed tree"
        )
        return
    except NoCommit:
        yield "  cannot be published yet: this git repository has no commit; commit, then measure"
        return
    except (EvidenceError, OSError):  # no git: publishing says what it needs
        return
    if changed:
        more = f" and {len(changed) - MOST_FILES} more" if len(changed) > MOST_FILES else ""
        yield f"  cannot be published yet: not committed: {', '.join(changed[:MOST_FILES])}{more}; commit, then measure"


def run(options: argparse.Namespace) -> None:
    from lab.cluster.choice import crew_of
    from lab.cluster.run import run_on_several
    from lab.supervisor.run import run as measure
    from lab.tune import launch_as_tuned, launch_by_rules

    launch_as_tuned() if options.with_tuned else launch_by_rules()
    directory = project().runs / options.run_id
    planned = plan_of(options)
    if options.command is run:  # `benchmark` has shown the plan, which says it
        for line in _left_out(options, planned):
            say(line)
    if crew := crew_of(options, planned.device):
        run_on_several(planned, directory, crew, say, model=options.gpu_model, in_turn=options.in_turn)
    else:
        measure(planned, directory, say)
    say(f"measured: {directory}")


def _left_out(options: argparse.Namespace, planned: Plan) -> Iterator[str]:
    """A line about the experiments that the run leaves out because none was named."""
    from lab.definition.catalogue import experiments_of_run

    if options.experiment:
        return
    measured = {each.name for each in planned.experiments}
    if left := [each.name for each in experiments_of_run(["all"], planned.device) if each.name not in measured]:
        more = f" and {len(left) - MOST_LEFT_OUT} more" if len(left) > MOST_LEFT_OUT else ""
        yield f"not in this run: {', '.join(left[:MOST_LEFT_OUT])}{more}; --experiment all takes every experiment"


def finish(options: argparse.Namespace) -> None:
    from lab.supervisor.cut_short import cut_short

    last = cut_short(directory_of(options.run), options.because)
    say(f"ended: {directory_of(options.run)}, whose last cell was measured at {last}")
