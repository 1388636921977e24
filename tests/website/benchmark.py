"""What it costs to build a site of thousands of experiments, next to what MkDocs takes for the same content.

Every experiment is a made-up one with other figures, judged beforehand. There is every page but those of runs, of which
there are fewer than experiments. Each line below is of a process of its own;
CPU seconds are user and system together, without what importing took.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from lab.website.data.judged import LazyJudged
from lab.website.data.judged_cache import read_judged
from lab.website.outputs import SiteContext
from lab.website.site import BUILDERS, write_site

SHAPES = tuple((rows, 4096) for rows in (512, 1024, 2048, 4096, 8192, 16384))
MARKS = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ", "p": "", "li": "- ", "dt": "", "dd": ": "}
PROFILES = ("plain", "fused", "compiled", "fast")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1000], help="numbers of experiments (default: 1000)")
    parser.add_argument("--mkdocs", default="", metavar="PROGRAM", help="compare with this MkDocs")
    parser.add_argument("--build", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        print(json.dumps(_build(*options.build)))
        return
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            _measure(size, Path(folder), options.mkdocs)


def _measure(size: int, folder: Path, mkdocs: str) -> None:
    print(f"{size} experiments of {len(SHAPES) * len(PROFILES)} cells and {len(PROFILES) - 1} claims", flush=True)
    made, site = folder / "judged", folder / "site"
    _make(size, made)
    build = [sys.executable, __file__, "--build", str(made), str(site)]
    ours = _told("cold", build)
    files = [path for path in site.rglob("*") if path.is_file() and path.parent.name != "assets"]
    pages = sum(path.suffix == ".html" for path in files)
    print(f"  {pages} pages, {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB")
    _told("nothing changed", build)
    first = made / "experiment-00000" / "data.json"
    for number, what in enumerate(("one changed", "one more changed")):
        first.write_text(
            re.sub("experiment 00000[, a-z]*", f"experiment 00000{', changed' * (number + 1)}", first.read_text())
        )
        _told(what, build)
    if mkdocs:
        theirs = _mkdocs(site, folder / "mkdocs", mkdocs)
        print(f"  pages a CPU second: {pages / ours:.0f} here, {size / theirs:.0f} with MkDocs")


def _told(what: str, command: list[str]) -> float:
    """Build, and print what it took; returns CPU seconds."""
    costs = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print(
        f"  {what:16}{costs['cpu_seconds']:8.2f} CPU s{costs['wall_seconds']:8.2f} s"
        f"{costs['rss_bytes'] / 1e6:7.0f} MB   (importing took {costs['import_seconds']:.2f} CPU s)", flush=True,
    )  # fmt: skip
    return float(costs["cpu_seconds"])


def _build(made: Path, site: Path) -> dict[str, float]:
    imported, began = time.process_time(), time.monotonic()
    current = [_held(folder) for folder in sorted(made.iterdir())]
    context = SiteContext(label="", current=current, published=(), decisions=())
    write_site(context, BUILDERS, site, made.parent / "remembered")
    return {
        "cpu_seconds": time.process_time() - imported,
        "wall_seconds": time.monotonic() - began,
        "import_seconds": imported,
        "rss_bytes": _peak_bytes(),
    }


def _peak_bytes() -> int:
    """The most memory that this process held; what getrusage tells may be that of the process which began it."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


def _held(folder: Path) -> LazyJudged:
    """A file that nobody touched has the same key, as evidence has that is addressed by its digest."""
    status = (folder / "data.json").stat()
    key = f"{folder.name} {status.st_size} {status.st_mtime_ns}"
    return LazyJudged(
        partial(read_judged, folder), name=folder.name, key=key, finished_utc="", fullness=(), cites=False
    )


def _make(size: int, made: Path) -> None:
    """The same experiment again and again, with other names and times."""
    from factory import DOUBLING, plan_of, profile, records_of, small_experiment

    from lab.definition.experiment import Case, Claim
    from lab.evidence.codec import to_data
    from lab.verdict.judge_run import judge_run
    from lab.website.data.judged import judged_run

    cases = tuple(Case(operator=DOUBLING, shape=s, dtype="float16", description="a shape") for s in SHAPES)
    profiles = {name: profile(name, title=name) for name in PROFILES}
    claims = tuple(
        Claim(name=f"fast-beats-{name}", text=f"Fast is faster than {name}.", subject=profiles["fast"],
              baseline=profiles[name], cases=cases)
        for name in PROFILES[:-1]
    )  # fmt: skip
    experiment = small_experiment(
        name="experiment-number", title="The experiment number", cases=cases, profiles=tuple(profiles.values()),
        claims=claims, headlines=claims[:1],
    )  # fmt: skip
    plan = plan_of(experiments=[experiment])
    times = {profiles[name].name: t * 1e-6 for name, t in zip(PROFILES, (60, 45, 42, 40), strict=True)}
    (item,) = judged_run(judge_run(plan, records_of(plan, times)), "d" * 64, "c" * 40)
    planned, text = json.dumps(to_data(item.plan)), item.as_json()
    for number in range(size):
        folder = made / f"experiment-{number:05d}"
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(_named(planned, number))
        (folder / "data.json").write_text(_named(_slower(text, 1 + number / 1e6), number))


def _named(text: str, number: int) -> str:
    return re.sub("(?<=experiment[- ])number", f"{number:05d}", text)


def _slower(text: str, factor: float) -> str:
    """All times are so many times as long."""
    return re.sub(r'(_seconds":)([\d.e-]+)', lambda match: f"{match[1]}{float(match[2]) * factor:.7g}", text)


def _mkdocs(site: Path, folder: Path, program: str) -> float:
    """CPU seconds that MkDocs takes for the words and tables of our pages, as Markdown."""
    (folder / "docs").mkdir(parents=True)
    for page in site.glob("experiments/*/index.html"):
        (folder / "docs" / f"{page.parent.name}.md").write_text(_markdown(page.read_text()))
    (folder / "docs" / "index.md").write_text("# Experiments\n")
    (folder / "mkdocs.yml").write_text(
        "site_name: Lab\nplugins: []\nmarkdown_extensions: [tables]\nvalidation: {nav: {omitted_files: ignore}}\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "build", "-q"], cwd=folder, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(f"  MkDocs cold     {seconds:8.2f} CPU s   (importing and theme included; no chart, data or pointers)")
    return seconds


def _markdown(html: str) -> str:
    """Headings, paragraphs, lists and tables of a page; its charts, data and pointers are left out."""
    body = html[html.index("<main") : html.index("</main>")]
    body = re.sub(r"<(svg|script)\b.*?</\1>", "", body, flags=re.DOTALL)
    lines = []
    for element in re.finditer(r"<(h[1-4]|p|li|tr|dt|dd)\b[^>]*>(.*?)</\1>", body, flags=re.DOTALL):
        kind, inner = element[1], element[2]
        if kind == "tr":
            cells = [_text(cell) for cell in re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", inner, flags=re.DOTALL)]
            lines.append("| " + " | ".join(cells) + " |")
            if 'scope="col"' in inner:
                lines[-1:] = ["", lines[-1], "|" + "---|" * len(cells)]
        else:
            mark = {"p": "", "li": "- ", "dt": "", "dd": ": "}.get(
                kind, "#" * int(kind[1:] or 1) + " " if kind[0] == "h" else ""
            )
            lines += ["", mark + _text(inner)]
    return "\n".join(lines) + "\n"


def _text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


if __name__ == "__main__":
    main()
