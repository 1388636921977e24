"""The map: `lab` and its subcommands, each a few rooms in order."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.definition.plan import METRIC_SETS, Plan
from lab.errors import LabError, MissingPackage, RunError
from lab.evidence.moment import now
from lab.evidence.source import ROOT
from lab.options import add_plan_options, add_tune_options, add_zoo_options
from lab.suggest import Parser, did_you_mean

Command = Callable[[argparse.Namespace], int | None]  # an exit status, where it is not 0
MOST_TOLD = 20  # differences that `verify` lists
VERIFYING = """\
It needs the site and this checkout, nothing else, and believes neither pages nor data:
  files      the SHA-256 of each is that of manifest.json
  samples    runs/*/journal.jsonl.gz and plan.json have the digest that the run is addressed by
  pages      each run is judged again, the whole site is made afresh with the definitions and decisions of this
             checkout, and every page, chart, table, badge and feed is compared byte by byte
  statistics medians, percentiles and intervals are reckoned a second time, by other code
  figures    every number on every page has a datum, and says its value

Exit status: 0 where all agree, 1 with a list of what differs (FILE#POINTER or FILE, line N: what is published,
what was computed), 2 where the site cannot be read. A site that another version of the lab has made may differ
because rules or pages have changed: check out the commit that made it, and install its versions of packages.

  lab verify                    the site of this checkout
  lab verify ~/Downloads/site.zip
"""
RUNS = Path(os.environ.get("LAB_RUNS", ROOT / "runs"))


class Version(argparse.Action):
    """Prints the version of the installed package: asked only then, for it takes a while to find."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"kernel-evidence-lab {version('kernel-evidence-lab')}")
        except PackageNotFoundError:
            print("kernel-evidence-lab, from a checkout that is not installed")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        status: int = options.command(options) or 0
    except LabError as problem:
        print(f"lab: {problem}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output has read enough; nor is the rest to be told at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print(
            "\nlab: stopped; what was measured is kept, and the same command goes on from there",
            file=sys.stderr,
        )
        return 130
    return status


def benchmark(options: argparse.Namespace) -> None:
    """The whole journey: plan, measure, track, judge, preview."""
    plan(options)
    if options.dry_run:
        return
    run(options)
    directory = RUNS / options.run_id
    options.runs = [str(directory)]
    judge(options)
    problems = []
    for name, stage in (("track", track), ("preview", preview)):
        try:
            stage(options)
        except MissingPackage as missing:
            say(f"{missing}; copy {directory} to a machine that has it, and run there: lab {name} RUN_DIRECTORY")
        except LabError as problem:
            problems.append(f"{problem} (then: lab {name} {options.run_id})")
    if problems:
        raise LabError("the run is measured and kept, but: " + "; ".join(problems))
    say(f"browse it: ./scripts/ui    publish it: ./scripts/publish {options.run_id}")


def plan(options: argparse.Namespace) -> None:
    from lab.overview import describe_plan

    for line in describe_plan(_plan(options)):
        print(line)


def run(options: argparse.Namespace) -> None:
    from lab.supervisor.run import run as measure
    from lab.tune import launch_as_tuned, launch_by_rules

    launch_as_tuned() if options.with_tuned else launch_by_rules()
    measure(_plan(options), RUNS / options.run_id, say)
    say(f"measured: {RUNS / options.run_id}")


def tune(options: argparse.Namespace) -> None:
    from lab.tune import Request, describe_request
    from lab.tune import tune as search
    from lab.worker.device import choose_device

    request = Request(
        operator=options.operator, shapes=tuple(options.shape), dtype=options.dtype, scope=options.scope,
        sweeps=options.sweeps, budget_seconds=options.budget_seconds,
        run_id=options.run_id or f"tune-{options.operator}-{now().lower().replace(':', '')}",
    )  # fmt: skip
    if not options.dry_run:
        choose_device("cuda")
    for line in describe_request(request) if options.dry_run else search(request, RUNS, say):
        print(line)


def zoo(options: argparse.Namespace) -> None:
    from lab.worker.device import choose_device
    from lab.zoo import Tour, describe_tour, screen

    tour = Tour(
        operators=tuple(options.operators), sample=options.sample, sweeps=options.sweeps,
        run_id=options.run_id or f"zoo-{now().lower().replace(':', '')}",
    )  # fmt: skip
    if not options.dry_run:
        choose_device("cuda")
    for line in describe_tour(tour) if options.dry_run else screen(tour, RUNS, say):
        print(line)


def track(options: argparse.Namespace) -> None:
    _need("mlflow", "pandas", "plotly")
    from lab.tracking.fill import track as fill
    from lab.verdict.results import load_run

    for name in options.runs:
        for line in fill(load_run(_directory(name)), _directory(name), RUNS):
            say(line)


def finish(options: argparse.Namespace) -> None:
    from lab.supervisor.cut_short import cut_short

    last = cut_short(_directory(options.run), options.because)
    say(f"ended: {_directory(options.run)}, whose last cell was measured at {last}")


def judge(options: argparse.Namespace) -> None:
    from lab.overview import describe_verdicts
    from lab.verdict.results import load_run

    for name in options.runs:
        for line in describe_verdicts(load_run(_directory(name))):
            print(line)


def preview(options: argparse.Namespace) -> None:
    _need("jinja2", "plotly", "markdown_it", "yaml")
    from lab.website.site import build_preview

    for name in options.runs:
        say(f"preview: {build_preview(_directory(name))}")


def build(options: argparse.Namespace) -> None:
    _need("jinja2", "plotly", "markdown_it", "yaml")
    from lab.website.site import build_site

    say(f"site: {build_site(Path(options.out), base_url=options.base_url)}")


def verify(options: argparse.Namespace) -> int:
    _need("jinja2", "plotly", "markdown_it", "yaml")
    from lab.website.verification.verify import verify as compute_again

    found = compute_again(Path(options.site), say)
    looked_at = (
        f"{found.runs} runs judged again, {found.files} files made afresh, "
        f"{found.figures} figures on {found.pages} pages followed"
    )
    for difference in found.differences[:MOST_TOLD]:
        print(difference)
    if len(found.differences) > MOST_TOLD:
        print(f"and {len(found.differences) - MOST_TOLD} more")
    print(f"{options.site}: {looked_at}: {len(found.differences) or 'no'} differences")
    return 1 if found.differences else 0


def publish(options: argparse.Namespace) -> None:
    _need("jinja2", "plotly", "markdown_it", "yaml")
    from lab.website.data.promoted import promote
    from lab.website.site import build_site

    promoted = []
    try:
        for name in options.runs:
            promoted.append(promote(_directory(name)))
        say(f"site: {build_site(ROOT / 'site')}")
    except BaseException:  # all or nothing, Ctrl-C included: evidence without its site would be published unseen
        for evidence in promoted:
            evidence.withdraw()
        raise
    for evidence in promoted:
        say(f"evidence: {evidence.directory}, digest {evidence.digest[:12]}, commit {evidence.commit[:12]}")


def ui(options: argparse.Namespace) -> None:
    _need("mlflow")
    from lab.tracking.ui import serve

    serve(RUNS, options.port, options.browser)


def doctor(options: argparse.Namespace) -> None:
    from lab.doctor import examine

    for line in examine():
        print(line)


def validity(options: argparse.Namespace) -> None:
    from lab.overview import describe_pooled, describe_repeats, describe_validity
    from lab.verdict.estimates import estimates
    from lab.verdict.pooled import pooled
    from lab.verdict.repeatability import repeatability
    from lab.verdict.results import load_run
    from lab.verdict.validity import study

    runs = [load_run(_directory(name)) for name in options.runs]
    for run in runs:
        if run.machine.device != "cuda":
            say(f"{run.plan.run_id}: left out, it was measured on the CPU")
    if all(run.machine.device != "cuda" for run in runs):
        raise RunError("no run of a GPU among them; docs/verdicts.md says how the lab is tested on one")
    for line in describe_validity(study(runs)):
        print(line)
    for line in describe_repeats(repeatability(runs, options.one_code), estimates(runs, options.one_code)):
        print(line)
    for line in describe_pooled(pooled(runs)):
        print(line)


def simulate(options: argparse.Namespace) -> int:
    from lab.overview import describe_simulation
    from lab.verdict.simulated import PATH, missed, save, simulated

    table = simulated(options.runs, options.seed)
    for line in describe_simulation(table):
        print(line)
    if options.keep:
        save(table)
        say(f"kept: {PATH}")
    return 1 if missed(table.rows) else 0


def show_experiments(options: argparse.Namespace) -> None:
    from lab.definition.catalogue import choose_experiments, load_experiments
    from lab.overview import describe_experiment

    for experiment in choose_experiments(options.experiments) if options.experiments else load_experiments():
        for line in describe_experiment(experiment):
            print(line)


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="lab", description="Measure, track, judge and publish GPU-kernel claims.")
    top.add_argument("--version", action=Version, nargs=0, help="print the version of the lab and stop")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, about: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=about, description=about)
        sub.set_defaults(command=command)
        return sub

    listing = add("list", show_experiments, "show the experiments, their cases, profiles and claims")
    listing.add_argument("experiments", nargs="*", metavar="NAME", help="experiments to show (default: every one)")
    for name, command, about in (
        ("benchmark", benchmark, "plan, measure, journal, track, judge and preview: the main job"),
        ("plan", plan, "show what a run would measure, and measure nothing"),
        ("run", run, "measure and journal only: needs neither network nor MLflow"),
    ):
        sub = add(name, command, about)
        add_plan_options(sub, run_id="plan" if command is plan else None)
        if command is benchmark:
            sub.add_argument("--dry-run", action="store_true", help="show the plan and stop")
    add_tune_options(add("tune", tune, "search for a faster launch configuration of a kernel, and keep it if it wins"))
    add_zoo_options(add("zoo", zoo, "hold kernels against their rivals at shapes of public models, and at odd ones"))
    for name, command, about in (
        ("track", track, "fill MLflow from run directories; doing it twice changes nothing"),
        ("judge", judge, "print the verdicts of run directories"),
        ("preview", preview, "render the pages of run directories beside their journals"),
        ("publish", publish, "promote runs into experiments/evidence/ and rebuild site/"),
    ):
        add(name, command, about).add_argument("runs", nargs="+", metavar="RUN", help="a run id, or a run directory")
    ending = add("finish", finish, "end a run that cannot go on, such as one whose box is gone; what it lacks is shown")
    ending.add_argument("run", metavar="RUN", help="a run id, or a run directory")
    ending.add_argument("--because", required=True, metavar="WHY", help="one line, which the run's pages show")
    website = add("build", build, "rebuild the website from experiments/ and its evidence")
    website.add_argument("--out", default=str(ROOT / "site"), help="folder to write (default: site/)")
    website.add_argument(
        "--base-url", default="", metavar="URL", help="where it will stand; sitemap, feed and badges then say so"
    )
    verifying = add(
        "verify", verify, "compute every figure and verdict of a published site again, from its raw samples"
    )
    verifying.add_argument(
        "site", nargs="?", default=str(ROOT / "site"), metavar="SITE", help="folder or zip of a site (default: site/)"
    )
    verifying.formatter_class = argparse.RawDescriptionHelpFormatter
    verifying.epilog = VERIFYING
    server = add("ui", ui, "open the MLflow UI on the run store")
    server.add_argument("--port", type=int, default=5000, help="port on 127.0.0.1 (default: 5000)")
    server.add_argument("--no-browser", dest="browser", action="store_false", help="print the address only")
    sub = add("validity", validity, "print the lab's own error rates, from runs that test it and from repeated runs")
    sub.add_argument("runs", nargs="+", metavar="RUN", help="a run id, or a run directory")
    sub.add_argument("--one-code", action="store_true", help="take the runs for repeats although their sources differ")
    sub = add("simulate", simulate, "count how often the rules err, on simulated runs whose truth is known")
    sub.add_argument("--runs", type=int, default=4000, help="simulated runs of each kind and truth (default 4000)")
    sub.add_argument("--seed", type=int, default=2026, help="the same seed gives the same table (default 2026)")
    sub.add_argument("--keep", action="store_true", help="write the table that the policy page shows")
    add("doctor", doctor, "say what this machine can measure, and what it lacks")
    return top


def _plan(options: argparse.Namespace) -> Plan:
    from lab.definition.catalogue import experiments_of_run
    from lab.definition.plan import make_plan
    from lab.verdict.judge import POLICY_VERSION
    from lab.worker.device import choose_device

    device = choose_device(options.device)
    return make_plan(
        options.run_id,
        experiments_of_run(options.experiment or (), device),
        device=device,
        profiling=options.with_profiling is not None,
        sweeps=options.sweeps if options.sweeps is not None else {"cuda": 5, "cpu": 3}[device],
        include=frozenset(options.include or ()),
        policy_version=POLICY_VERSION,
        instruments=options.with_instruments,
        metric_set=options.with_profiling or METRIC_SETS[0],
    )


def _directory(name: str) -> Path:
    """A run id under runs/, or the path of a run directory. RunError where neither is there."""
    for directory in (RUNS / name, Path(name)):
        if directory.is_dir():
            return directory
    there = sorted((path.parent.name for path in RUNS.glob("*/plan.json")), reverse=True)
    listed = f"runs there: {', '.join(there[:MOST_TOLD])}" if there else "no run is there yet"
    raise RunError(f"no run {name!r} under {RUNS}, and no directory of that path; {listed}{did_you_mean(name, there)}")


def _need(*packages: str) -> None:
    from importlib.util import find_spec

    if missing := [package for package in packages if find_spec(package) is None]:
        raise MissingPackage(f"{', '.join(missing)} not installed here")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
