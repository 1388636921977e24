"""`lab tune` and `lab zoo`: runs of generated experiments, over one kernel's launches or over many shapes."""

import argparse

from lab.commands.adding import Add
from lab.commands.runs import say, tell_lines
from lab.evidence.moment import now
from lab.options import add_tune_options, add_zoo_options
from lab.project import project


def add_commands(add: Add) -> None:
    add_tune_options(add("tune", tune, "search for a faster launch configuration of a kernel, and keep it if it wins"))
    add_zoo_options(add("zoo", zoo, "hold kernels against their rivals at shapes of public models, and at odd ones"))


def tune(options: argparse.Namespace) -> None:
    from lab.tune import SearchRequest, describe_request
    from lab.tune import tune as search
    from lab.worker.device import choose_device

    request = SearchRequest(
        operator=options.operator, shapes=tuple(options.shape), dtype=options.dtype, scope=options.scope,
        sweeps=options.sweeps, budget_seconds=options.budget_seconds,
        run_id=options.run_id or f"tune-{options.operator}-{now().lower().replace(':', '')}",
    )  # fmt: skip
    if not options.dry_run:
        choose_device("cuda")
    tell_lines(describe_request(request) if options.dry_run else search(request, project().runs, say))


def zoo(options: argparse.Namespace) -> None:
    from lab.worker.device import choose_device
    from lab.zoo import Tour, describe_tour, screen

    tour = Tour(
        operators=tuple(options.operators), sample=options.sample, sweeps=options.sweeps, decide=options.decide,
        run_id=options.run_id or f"zoo-{now().lower().replace(':', '')}",
    )  # fmt: skip
    if not options.dry_run:
        choose_device("cuda")
    tell_lines(describe_tour(tour) if options.dry_run else screen(tour, project().runs, say))
