"""The map: `lab` and its commands, in the order of the journey from a definition to a published page."""

import argparse
import io
import os
import sys
from collections.abc import Sequence

from lab.commands import exchanging, judging, measuring, publishing, searching, starting, tracking
from lab.commands.adding import Command
from lab.commands.runs import in_words, say
from lab.errors import LabError
from lab.options import with_include_flags
from lab.project import CODE, VARIABLE, is_fallback
from lab.suggest import Parser

JOURNEY = (
    starting,  # init, list, check, doctor: a project, what it defines, whether it is right, what can be measured
    measuring,  # benchmark: all that follows in one; plan → run → finish
    searching,  # tune, zoo: runs whose experiments are generated
    tracking,  # run → MLflow: track, ui
    judging,  # run → verdicts: judge; two → a gate: compare; many → alarms; how far to trust them: validity, simulate
    exchanging,  # run → files for other programs, bundles of colleagues → runs: export, import
    publishing,  # run → pages: preview, publish, build, verify
)
WITHOUT_PROJECT = (starting.init, starting.doctor)


class Version(argparse.Action):
    """Prints the version of the installed package: asked only then, for it takes a while to find."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"kernel-evidence-lab {version('kernel-evidence-lab')}")
        except PackageNotFoundError:
            print("kernel-evidence-lab, from a checkout that is not installed")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="lab", description="Measure, track, judge and publish GPU-kernel claims.")
    top.add_argument("--version", action=Version, nargs=0, help="print the version of the lab and stop")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, about: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=about, description=about)
        sub.set_defaults(command=command)
        return sub

    for group in JOURNEY:
        group.add_commands(add)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack some characters
    given = with_include_flags(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parser().parse_args(given)
        options.given = given[1:]
        _tell_fallback(options.command)
        status: int = options.command(options) or 0
        sys.stdout.flush()
    except LabError as problem:
        say(f"lab: {problem}")
        return 2
    except BrokenPipeError:  # the reader, such as head, closed the pipe
        _drop_output()
        return 141
    except OSError as refusal:
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()
        say(f"lab: {in_words(refusal)}")
        return 2
    except KeyboardInterrupt:
        kept = "; what was measured is kept, and the same command goes on from there" if _resumes(given) else ""
        print(f"\nlab: stopped{kept}", file=sys.stderr)
        return 130
    return status


def _tell_fallback(command: Command) -> None:
    """Before a command runs elsewhere than whoever gave it may think: it may measure there, and publish."""
    if command not in WITHOUT_PROJECT and is_fallback():
        say(
            f"no project here or in a folder above: this is about the lab's own, {CODE}. "
            f"`lab init` makes a folder a project; {VARIABLE} names one from elsewhere"
        )


def _resumes(given: Sequence[str]) -> bool:
    """Whether this command, given again, goes on from what it measured: its run keeps its name."""
    named = any(word.partition("=")[0] == "--run-id" for word in given)
    return named and given[0] in ("benchmark", "run", "tune", "zoo")


def _drop_output() -> None:
    """Discard buffered output, so that Python does not try to print it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
