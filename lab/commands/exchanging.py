"""`lab export` and `import`: runs as files for other programs, and runs of colleagues."""

import argparse
import sys
from pathlib import Path

from lab.commands.adding import RUN, Add
from lab.commands.runs import directory_of, say
from lab.errors import LabError
from lab.project import project


def add_commands(add: Add) -> None:
    sub = add("export", export, "write the rows of a run for other programs, or all of it as a bundle")
    sub.add_argument("run", metavar="RUN", help=RUN)
    forms = sub.add_mutually_exclusive_group(required=True)
    for form in ("csv", "json", "parquet"):
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=f"rows as {form.upper()}")
    forms.add_argument("--bundle", dest="form", action="store_const", const="bundle", help="the run itself, as a zip")
    sub.add_argument("--table", choices=("cells", "claims", "samples"), default="cells", help="default: %(default)s")
    sub.add_argument("--out", metavar="FILE", help="default: what is printed; Parquet and bundles need a file")
    sub = add("import", import_run, "check a bundle of somebody else's run and put it among one's own")
    sub.add_argument("bundle", metavar="BUNDLE.zip", help="what `lab export --bundle` wrote")


def export(options: argparse.Namespace) -> None:
    from lab.verdict.judge_run import load_run

    directory = directory_of(options.run)
    if options.form in ("bundle", "parquet") and not options.out:
        raise LabError(f"--{options.form}: is no text to print; name a file with --out")
    if options.form == "bundle":
        from lab.bundle import write_bundle

        write_bundle(directory, Path(options.out))
    else:
        from lab.export import exported

        content = exported(load_run(directory), options.table, options.form)
        if not options.out:
            sys.stdout.write(content.decode())
            return
        _write(Path(options.out), content)
    say(f"exported: {options.out}")


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as refusal:
        raise LabError(f"{path}: cannot be written: {refusal.strerror}") from None


def import_run(options: argparse.Namespace) -> None:
    from lab.bundle import import_bundle

    imported = import_bundle(Path(options.bundle), project().runs)
    say(f"imported: {imported.directory}")
    if not imported.listed:
        say("provenance: the bundle lists no digests of its files, so only the journal's own checksums were checked")
    measured = f"source {imported.run.start.source_digest[:12]}"
    if imported.commit:
        say(f"provenance: {measured}, which is that of commit {imported.commit[:12]} here")
    else:
        said = imported.run.start.commit[:12]
        claimed = f"; its journal names commit {said}" if said else ""
        say(f"provenance: {measured}, which matches no commit here: it can be judged but not published{claimed}")
