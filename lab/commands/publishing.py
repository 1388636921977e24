"""`lab preview`, `publish`, `build` and `verify`: runs as pages."""

import argparse
from pathlib import Path

from lab.commands.adding import RUN, Add
from lab.commands.runs import FOR_PAGES, directory_of, lacking, need, say, tell
from lab.errors import EvidenceError, StoreError
from lab.project import project

MOST_TOLD = 20  # differences that `verify` lists
VERIFYING = """\
It needs the site and this checkout, nothing else, and believes neither pages nor data:
  files      the SHA-256 of each is that of manifest.json
  samples    journal.jsonl.gz and plan.json have the digest that the run is addressed by; they are looked for in the
             site's runs/*/, then in experiments/evidence/ beside the site, then in that of this checkout
  pages      each run is judged again, the whole site is made afresh with the definitions and decisions of this
             checkout, and every page, chart, table and the feed is compared byte by byte
  statistics medians, percentiles and intervals are computed a second time, by other code
  log        no run that runs/log.jsonl names is gone, and none is missing from it
  signatures where a run is signed, the signature is of its files
  figures    every number on every page has a datum, and says its value

Exit status: 0 where all agree, 1 with a list of what differs (FILE#POINTER or FILE, line N: what is published,
what was computed), 2 where the site cannot be read or the samples of a run were not found. A site that another
version of the lab has made may differ because rules or pages have changed: check out the commit that made it, and
install its versions of packages.

  lab verify                    the site of this checkout
  lab verify ~/Downloads/site.zip
"""


def add_commands(add: Add) -> None:
    sub = add("preview", preview, "render the pages of run directories beside their journals")
    sub.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    sub = add("publish", publish, "promote runs into the project's evidence and rebuild its site")
    sub.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    sub.add_argument("--sign", metavar="KEY", help="sign the runs with this SSH key, by ssh-keygen")
    website = add("build", build, "rebuild the website from the project's experiments and evidence")
    website.add_argument("--out", metavar="FOLDER", help="folder to write (default: site/)")
    website.add_argument("--base-url", metavar="URL", help="where it will stand; its pages and its sitemap then say so")
    website.add_argument(
        "--with-samples", dest="samples", action="store_true", help="put the raw samples of every run into it"
    )
    verifying = add(
        "verify", verify, "compute every figure and verdict of a published site again, from its raw samples"
    )
    verifying.add_argument("site", nargs="?", metavar="SITE", help="folder or zip of a site (default: site/)")
    verifying.add_argument(
        "--signers", metavar="FILE", help="have every run signed by one of these: a file of allowed signers of OpenSSH"
    )
    verifying.formatter_class = argparse.RawDescriptionHelpFormatter
    verifying.epilog = VERIFYING


def preview(options: argparse.Namespace) -> None:
    need(*FOR_PAGES)
    from lab.website.site import build_preview

    for name in options.runs:
        say(f"preview: {build_preview(directory_of(name))}")


def publish(options: argparse.Namespace) -> None:
    need(*FOR_PAGES)
    from lab.website.data.promoted import promote
    from lab.website.site import build_site

    current_project = project()
    promoted = []
    for name in options.runs:
        _refuse_contradicted(directory_of(name))
    try:
        for name in options.runs:
            promoted.append(promote(directory_of(name), key=Path(options.sign) if options.sign else None))
        say(f"site: {build_site(current_project.site, base_url=current_project.settings.base_url)}")
    except BaseException:  # all or nothing, Ctrl-C included: evidence without its site would be published unseen
        for evidence in reversed(promoted):
            evidence.withdraw()
        raise
    for evidence in promoted:
        commit = f"commit {evidence.commit[:12]}" if evidence.commit else "no commit"
        say(f"evidence: {evidence.directory}, digest {evidence.digest[:12]}, {commit}")
    if not all(evidence.commit for evidence in promoted):
        say(
            f"provenance: {current_project.root} is no git repository, so no commit can be named: nobody can look up "
            "the code that was measured, which is known by its digest alone. Put it under git, commit, measure and "
            "publish again"
        )


def build(options: argparse.Namespace) -> None:
    need(*FOR_PAGES)
    from lab.website.site import build_site

    current_project = project()
    out = Path(options.out) if options.out else current_project.site
    base_url = current_project.settings.base_url if options.base_url is None else options.base_url
    say(f"site: {build_site(out, base_url=base_url, samples=options.samples)}")


def verify(options: argparse.Namespace) -> int:
    need(*FOR_PAGES)
    from lab.website.format import counted
    from lab.website.verification.verify import verify as compute_again

    site = Path(options.site) if options.site else project().site
    signers = Path(options.signers) if options.signers else None
    if signers and not signers.is_file():
        raise EvidenceError(f"{signers}: no file there; --signers names a file of allowed signers, see ssh-keygen(1)")
    verification = compute_again(site, say, signers=signers)
    looked_at = (
        f"{counted(verification.runs, 'run')} judged again, {verification.files} files made afresh, "
        f"{verification.figures} figures on {verification.pages} pages followed"
    )
    for difference in verification.differences[:MOST_TOLD]:
        tell(str(difference))
    if len(verification.differences) > MOST_TOLD:
        print(f"and {len(verification.differences) - MOST_TOLD} more")
    for missing in verification.unchecked:
        tell(f"not checked: {missing}")
    print(f"{site}: {looked_at}: {len(verification.differences) or 'no'} differences")
    return 1 if verification.differences else 2 if verification.unchecked else 0


def _refuse_contradicted(directory: Path) -> None:
    """EvidenceError where the tracking store contradicts a run; where it cannot be asked, that is said and no error."""
    if lacking("mlflow"):
        return
    from lab.tracking.store import find_store

    try:
        if find_store(project().runs).is_missing:
            return  # and MLflow, whose import takes seconds, is not needed
        from lab.tracking.fill import refuse_contradicted

        refuse_contradicted(directory, project().runs)
    except StoreError as problem:
        say(f"not compared with the tracking store: {problem}")
