"""`lab track` and `ui`: runs in MLflow."""

import argparse

from lab.commands.adding import RUN, Add
from lab.commands.runs import directory_of, need, say
from lab.project import project


def add_commands(add: Add) -> None:
    sub = add("track", track, "fill MLflow from run directories; doing it twice changes nothing")
    sub.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    server = add("ui", ui, "open the MLflow UI on the run store")
    server.add_argument("--port", type=int, default=5000, help="port on 127.0.0.1 (default: 5000)")
    server.add_argument("--no-browser", dest="browser", action="store_false", help="print the address only")


def track(options: argparse.Namespace) -> None:
    need("mlflow", "pandas")
    from lab.tracking.fill import track as fill
    from lab.tracking.fill import unchanged
    from lab.verdict.judge_run import load_run

    for name in options.runs:
        directory, runs = directory_of(name), project().runs
        for line in unchanged(directory, runs) or fill(load_run(directory), directory, runs):
            say(line)


def ui(options: argparse.Namespace) -> None:
    need("mlflow")
    from lab.tracking.ui import serve

    serve(project().runs, options.port, options.browser)
