"""How far the lab itself can be trusted: repeats, known answers, the threat model, as a page and data."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lab.verdict.excluded_rounds import LARGEST_CANARY_DRIFT
from lab.verdict.pooled import FEWEST_RUNS
from lab.verdict.repeatability import CHANGED, FLIPPED, HOLDING, ZERO
from lab.verdict.statistics import CONFIDENCE, per_cent
from lab.verdict.validity import AGREES_WITHIN, AGREES_WITHIN_SECONDS, REPEATED_WITHIN
from lab.verdict.widening import DRAW_SPREAD
from lab.website import format
from lab.website.data.judged import json_text
from lab.website.data.publication_log import LOG, gone, head, text_of
from lab.website.data.published_clocks import INSTRUMENTS
from lab.website.data.published_trust import OTHERS
from lab.website.figure import DataView, Sentence, joined, sentence
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.table import Constant, Head, PageTable, TableRow, column, csv_file, csv_table, named, row

Part = dict[str, Any]  # of the page: anchor, title, about, table, csv, summary, notes
ONE_DRAW, OTHER_CLAIMS = "torch.compile, one cache", "fixed kernels, and fresh compilations"
CHANGED_CSV = "trust/changed.csv"


def share(share: float) -> str:
    """A share in per cent; a count as it is."""
    return per_cent(share, 1) if isinstance(share, float) else str(share)


REPEATABILITY = (
    named("gpu", "GPU"), named("claims", "Claims"), column("changed_share", "Changed", show=share),
    column("lowest_changed_share", "At least", show=share), column("highest_changed_share", "At most", show=share),
    column("flipped", "Reversed"), column("holding_share", "Interval holds", show=share),
    column("zero_share", "Within error", show=share), column("runs"), column("boards"),
    column("run_pairs", "Run pairs"), column("pairs"),
)  # fmt: skip
WHICH = (*REPEATABILITY, named("which", "Which runs"))  # in the CSV: names of runs are too many for a column of a page


def repeatability_part(view: DataView) -> Part:
    """Of pairs of runs of one source and sampling on one GPU model. No rows where no run was repeated."""
    repeats = (view.value("repeatability") or {}).items()
    places = [(view.at("repeatability", number), pairs) for number, pairs in repeats]
    rows = (row(at, REPEATABILITY, claims=_kind(pairs)) for at, pairs in places)
    whole = [row(at, WHICH, claims=_kind(pairs), which=", ".join(pairs["run_ids"])) for at, pairs in places]
    part = _part(
        "repeatability", "Does a verdict hold when the run is repeated?",
        "Each row compares all pairs of runs of one source on one GPU model that take the same samples in a sweep, "
        "claim by claim and case by case. "
        f"“At least” and “at most” are the ends of a {per_cent(CONFIDENCE)} interval (Wilson's) of the share that "
        "changed. It takes pairs as independent. Those of the same two runs are not, so the share can be off by more. "
        "“Interval holds”: one run's interval holds the other run's speed-up, which a right 95 % interval does in "
        "about 87 % of pairs, because the other run errs too. “Within error”: the two speed-ups agree "
        "within both intervals. "
        "The CSV file names the runs. "
        f"The goals: at most {per_cent(CHANGED)} changed, none reversed, at least {per_cent(HOLDING)} and "
        f"{per_cent(ZERO)}.",
        REPEATABILITY, rows,
    )  # fmt: skip
    csv = PageTable(label=part["title"], heads=WHICH, rows=whole)
    return part | {"csv": csv, "notes": (*_which_pairs(view), *_repeats_that_lack(view))}


def _which_pairs(view: DataView) -> Iterator[Sentence]:
    """In how many pairs the verdicts differ, and which pairs of runs these are of."""
    for number, pairs in (view.value("repeatability") or {}).items():
        at = view.at("repeatability", number)
        said = f"{pairs['gpu']}, {_kind(pairs)}: in {{changed}} of {{pairs}} pairs the verdicts differ. Pairs of runs: "
        yield (
            *sentence(at, said),
            *joined(
                (
                    sentence(at.at("experiments", str(place)), f"{each['experiment']} {{run_pairs}}")
                    for place, each in enumerate(pairs["experiments"])
                ),
                ", ",
            ),
            ".",
        )


def _repeats_that_lack(view: DataView) -> Iterator[Sentence]:
    """Where an experiment lacks three runs of one source, by GPU model."""
    sources = view.value("runs_of_one_source") or {}
    for gpu in dict.fromkeys(each["gpu"] for each in sources.values()):
        here = {number: each for number, each in sources.items() if each["gpu"] == gpu}
        once = [each for each in here.values() if each["most"] == 1]
        told = joined(
            (
                sentence(view.at("runs_of_one_source", number), f"{each['experiment']} has {{most}}")
                for number, each in here.items()
                if each["most"] > 1
            ),
            ", ",
        )
        rest = f"{'no other experiment' if told else 'no experiment'} has more than one"
        met = all(each["most"] >= FEWEST_RUNS for each in here.values())
        wish = f"Wished for on {gpu}: {FEWEST_RUNS} runs of one source of every experiment. "
        left_out = " Tests of the lab itself and samples of the zoo are left out."
        others = ("; " if told else "", rest) if once else ()
        yield (wish, "It is met: " if met else "It is not met: ", *told, *others, ".", left_out)


def _kind(pairs: Mapping[str, Any]) -> str:
    return ONE_DRAW if pairs["one_draw"] else OTHER_CLAIMS


def power_part(view: DataView) -> Part:
    columns = (
        column("known_ratio", "Known ratio", show=lambda v: f"{v:.2f}×"), column("trials"),
        column("right", "Right verdicts"), column("withheld", "Too noisy to call"),
        column("excluding_one", "Intervals without 1"), column("covering", "Intervals that hold the ratio"),
    )  # fmt: skip
    effects = view.value("power") or {}
    return _part(
        "power", "Does it find a difference of known size?",
        "A kernel against itself with 1, 2 or 5 % more work. At 5 % the lab must call it 2 % faster; at 1 % it must "
        "not; at 2 % the truth lies on the threshold, and the interval only has to exclude 1. The goals: 90 % right, "
        "90 % of intervals at 2 % without 1, and 93 % of intervals that hold the known ratio.",
        columns, (row(view.at("power", claim), columns) for claim in effects if effects[claim]["trials"]),
    )  # fmt: skip


def same_part(view: DataView) -> Part:
    columns = (
        named("case", "Case"), column("comparisons"), column("supported", "Called faster"),
        column("excluding_one", "Intervals without 1"),
    )  # fmt: skip
    places: list[tuple[tuple[str, ...], str]] = [
        (("same_by_case", case), case) for case in view.value("same_by_case") or {}
    ]
    totals = [(("same",), "All"), (("controls",), "Controls of all other runs")]
    places += [(path, name) for path, name in totals if places and view.value(*path, "comparisons")]
    return _part(
        "same", "The same function under two names, case by case",
        "Each session is judged like a run of its own. The goal: at most one called faster, and at most 16 in 200 "
        "intervals without 1.",
        columns, (row(view.at(*path), columns, case=name) for path, name in places),
    )  # fmt: skip


def repeats_part(view: DataView) -> Part:
    columns = (
        named("experiment", "Experiment"), named("gpu", "GPU"), column("gpus", "Boards"), column("runs"),
        column("sources"), named("protocol", "Protocol"),
        column("comparisons", "Claims at cases"), column("flip_count", "Reversed"), column("changed_count", "Changed"),
        column("disjoint_count", "Intervals apart"), column("cells", "Times"), column("within"),
        column("largest_deviation", "Largest deviation", show=lambda v: per_cent(v, 2)), named("largest_at", "Where"),
    )  # fmt: skip
    return _part(
        "repeats", "Repeats of each experiment",
        "All published runs of an experiment under one protocol, a row each, changes of the source included, most of "
        "them on different boards. A protocol is told by its sweeps × rounds × samples in a block, by whether every "
        "sweep compiles anew (“a cache a sweep”), and by whether calls are timed one at a time (“isolated”). "
        "Boards run at different clocks, and torch.compile may choose other kernels, so "
        "times and intervals can move apart. The goal: times of 20 µs and more within "
        f"±{per_cent(REPEATED_WITHIN)} of their median over the runs, and no reversed verdict.",
        columns,
        (row(view.at("repeats", number), columns, protocol=Constant((repeat["protocol"],)))
         for number, repeat in (view.value("repeats") or {}).items()),
    )  # fmt: skip


def instruments_part(view: DataView) -> Part:
    columns = (
        named("cell", "Cell"), column("p50_seconds", "Cold, µs"),
        *(column(f"{name}_seconds", f"{name.replace('_flush', ' flush')}, µs", show=format.microseconds)
          for name in INSTRUMENTS),
        named("agrees", "Agrees after a writing flush"), named("agrees_cold", "Agrees with cold"),
    )  # fmt: skip
    return _part(
        "instruments", "Other benchmarking tools on the same cells",
        "do_bench and nvbench flush the cache by writing. It is then full of dirty lines, and writing those back falls "
        "into the timed window. The lab's cold clock reads them back first, so longer kernels look faster there. Very "
        "short kernels can look slower, because that clock also cycles through fresh inputs and outputs. With a "
        "writing flush and one set of inputs, the lab's clock should agree with both: within "
        f"{per_cent(AGREES_WITHIN)} or {AGREES_WITHIN_SECONDS * 1e6:.1f} µs, whichever is more.",
        columns,
        (row(view.at("instruments", cell), columns, cell=cell, agrees=_agreeing(view, cell, "agrees"),
             agrees_cold=_agreeing(view, cell, "agrees_cold"))
         for cell in view.value("instruments") or {}),
        _agreement(view),
    )  # fmt: skip


def _agreeing(view: DataView, cell: str, how: str) -> str:
    return " and ".join(name for name in OTHERS if view.value("instruments", cell, f"{name}_{how}")) or "neither"


def _agreement(view: DataView) -> Sentence:
    return sentence(
        view.at("agreement"),
        "Of {cells} cells, the lab's clock after a writing flush agrees with do_bench in {do_bench_agrees} and with "
        "nvbench in {nvbench_agrees}; its cold clock, on which most verdicts rest, in {do_bench_agrees_cold} and "
        "{nvbench_agrees_cold}.",
    )


def flush_part(view: DataView) -> Part:
    columns = (
        named("run", "Run"), column("footprint_bytes", "Buffer, bytes", show=_thousands),
        column("flushed_read_bytes", "Read after flush", show=_thousands),
        column("warm_read_bytes", "Read again", show=_thousands),
    )  # fmt: skip
    return _part(
        "flush", "Does the cache flush work?",
        "Nsight Compute counts the bytes that one read of a buffer brings in from DRAM: right after the flush, where "
        "all of the buffer must come, and once more, where next to nothing may.",
        columns, _by_run(view, "flush", columns),
    )  # fmt: skip


def canaries_part(view: DataView) -> Part:
    columns = (
        named("run", "Run"), column("clock_step_seconds", "Clock step, ns", show=lambda v: f"{v * 1e9:.0f}"),
        column("empty_seconds", "Two events, µs"), column("launch_floor_seconds", "Empty kernel, µs"),
        column("canaries"), column("off"),
        column("largest_off", "Largest deviation", show=lambda v: per_cent(v, 1)),
    )  # fmt: skip
    return _part(
        "clock", "The clock and the canaries",
        "What the GPU's clock shows when nothing, or nearly nothing, is timed, and how far canaries (fixed copies and "
        "spins between the cases) were from their process's median. A canary that is off by more than "
        f"{per_cent(LARGEST_CANARY_DRIFT)} spoils the cases beside it.",
        columns, _by_run(view, "clock", columns),
    )  # fmt: skip


def _part(
    name: str, title: str, about: str, columns: tuple[Head, ...], rows: Iterable[TableRow], summary: Sentence = ()
) -> Part:
    table = PageTable(label=title, kind="stacks", heads=columns, rows=tuple(rows))
    return {
        "anchor": name,
        "title": title,
        "about": about,
        "table": table,
        "csv": table,
        "summary": summary,
        "notes": (),
    }


def _by_run(view: DataView, place: str, columns: tuple[Head, ...]) -> Iterator[TableRow]:
    return (row(view.at(place, run), columns, run=run) for run in view.value(place) or {})


def _thousands(value: float) -> str:
    return f"{value:,.0f}"


def trust_pages(context: SiteContext) -> Iterator[Output]:
    """trust/index.html, its data and its tables as CSV; a preview of one run has none."""
    if context.trust:
        page = trust_page(context.trust)
        yield Document(path="trust/index.html", template="trust.html", view={**page, "log": _log(context)})
        yield Attachment(path="trust/data.json", content=json_text(context.trust))
        parts = (*page["face"], *page["folded"])
        yield from (csv_file(part["csv"], f"trust/{part['anchor']}.csv") for part in parts)
        if page["changed"]:
            yield changed_csv(context.trust)
    if context.log:
        yield Attachment(path=LOG, content=text_of(context.log))


def trust_page(data: Mapping[str, Any]) -> dict[str, Any]:
    """`data`: of lab.website.data.published_trust."""
    view = DataView(data)
    face = (repeatability_part, power_part)
    folded = (same_part, repeats_part, instruments_part, flush_part, canaries_part)
    return {
        "lede": _lede(view), "missed": missed_goals(view), "errors": self_comparison_errors(view),
        "moved": _moved(view), "clocks": _clocks(view), "changed": changed_part(view),
        "face": tuple(part for make in face if (part := make(view))["table"].rows),
        "folded": tuple(part for make in folded if (part := make(view))["table"].rows),
        "draw_spread": per_cent(DRAW_SPREAD),
    }  # fmt: skip


def _log(context: SiteContext) -> dict[str, Any] | None:
    """The log of publications, and which of them are no longer there; None where no log was kept."""
    if not context.log:
        return None
    missing = gone(context.log, {each.digest for each in context.files})
    dated = tuple((each.run_id, format.minute(each.published_utc), each.digest) for each in missing)
    return {"path": LOG, "head": head(context.log), "gone": dated}


def _lede(view: DataView) -> Sentence:
    repeated, compared = view.value("repeated", "comparisons"), view.value("same", "comparisons")
    told = (
        "Over all runs of an experiment, changed kernels included, {repeated/flip_count} of {repeated/comparisons} "
        "claims at a case went from “holds” to “does not hold” or back. " if repeated else "",
        "Of {same/comparisons} comparisons of a function with itself, {same/supported} called one side faster."
        if compared else "",
    )  # fmt: skip
    return sentence(view, "".join(told) or "No run that tests the lab itself has been published yet.")


def self_comparison_errors(view: DataView) -> Sentence:
    """How often a function beat itself, in tests and in the controls of all other runs; empty where none was run."""
    places = {"same": "comparisons in tests", "controls": "in the controls of other runs"}
    told = joined(
        (
            sentence(
                view.at(place),
                f"of {{comparisons}} {where}, {{supported}} were called faster (a rate of at most "
                f"{{largest_supported_rate:rate}} with {per_cent(CONFIDENCE)} confidence) and {{excluding_one}} had an "
                "interval without 1",
                rate=lambda rate: per_cent(rate, 1),
            )
            for place, where in places.items()
            if view.value(place, "comparisons")
        ),
        "; ",
    )
    return ("O", str(told[0])[1:], *told[1:], f", where {per_cent(1 - CONFIDENCE)} would be normal.") if told else ()


def missed_goals(view: DataView) -> Sentence:
    """Every goal that repeats miss, by GPU model; that none is; nothing where no run was repeated."""
    missing: list[Sentence] = []
    for number, pairs in (view.value("repeatability") or {}).items():
        who = f"{pairs['gpu']}{f' ({ONE_DRAW})' if pairs['one_draw'] else ''}"
        for key, goal, missed, said in GOALS:
            if missed(pairs[key]):
                value = view.figure("repeatability", number, key, show=share) or "–"
                missing.append((f"{said} on {who}: ", value, f", goal {goal}"))
    if missing:
        return ("Goals that are missed where the source is the same: ", *joined(missing, "; "), ".")
    return ("Every goal is met.",) if view.value("repeatability") else ()


def _moved(view: DataView) -> Sentence:
    """What of the repeated experiment with most cells out of bounds did not repeat, if anything."""
    repeats = view.value("repeats") or {}
    out = {number: repeat["cells"] - repeat["within"] for number, repeat in repeats.items()}
    number = max(out, key=lambda each: out[each], default="")
    if not out.get(number):
        return ()
    at, repeat = view.at("repeats", number), repeats[number]
    return (
        *sentence(at, "Times move more than ratios do. Over {runs} runs of "), f"{repeat['experiment']}, ",
        *sentence(at, "{within} of {cells} times stayed within "), f"±{per_cent(REPEATED_WITHIN)} of their median. "
        f"The worst, {repeat['largest_at']}, was off by ", *sentence(at, "{largest_deviation:share}.", share=share),
    )  # fmt: skip


def _clocks(view: DataView) -> Sentence:
    """How many claims another clock would put on the other side of their threshold."""
    if not view.value("agreement", "claims"):
        return ()
    return sentence(
        view.at("agreement"),
        "Of {claims} claims that do_bench, nvbench or a writing flush timed too, {claims_turned} fall on the other "
        "side of their threshold by that clock. A case's page shows the ratios side by side.",
    )


def changed_part(view: DataView) -> Part | None:
    """How many verdicts were not the same in all repeats, a row for each experiment and GPU; None without repeats."""
    columns = (
        named("experiment", "Experiment"), named("gpu", "GPU"), column("protocols"), column("runs"),
        column("comparisons", "Claims at cases"), column("changed_count", "Changed"), column("flip_count", "Reversed"),
    )  # fmt: skip
    places = view.value("changed") or {}
    about = (
        "Over all published runs of an experiment, changes of the source included. Runs are compared with those of the "
        "same protocol; a claim at a case counts once under each."
    )
    left_out = sentence(
        view.at("changed_screenings"),
        " Screenings of the zoo are left out: they take few samples, to find what is to be measured again. Of those "
        "{changed_count} of {comparisons} changed.",
    )
    screened: Sentence = left_out if view.value("changed_screenings", "comparisons") else ()
    rows = (row(view.at("changed", number), columns) for number in places)
    return _part("changed", "Which verdicts changed", about, columns, rows, screened) if places else None


def changed_csv(data: Mapping[str, Any]) -> Attachment:
    """Every claim at a case whose verdict was not the same in all repeats, those of screenings too."""
    columns = ("experiment", "gpu", "protocol", "screening", "runs", "claim", "case", "reversed")
    rows = (
        (repeat["experiment"], repeat["gpu"], repeat["protocol"], _yes(repeat["screening"]), repeat["runs"],
         *place.split(" at ", 1), _yes(place in repeat["flips"]))
        for repeat in data["repeats"].values()
        for place in repeat["changed"]
    )  # fmt: skip
    return csv_table(CHANGED_CSV, columns, rows)


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


# Of pairs of runs: what is counted, the goal, whether it is missed, and that in words.
GOALS: tuple[tuple[str, str, Callable[[float], bool], str], ...] = (
    ("holding_share", f"at least {per_cent(HOLDING)}", lambda share: share < HOLDING, "intervals too narrow"),
    ("zero_share", f"at least {per_cent(ZERO)}", lambda share: share < ZERO, "runs that disagree"),
    ("changed_share", f"at most {per_cent(CHANGED)}", lambda share: share > CHANGED, "changed verdicts"),
    ("flipped", f"{FLIPPED:g}", lambda count: count > FLIPPED, "reversed verdicts"),
)
