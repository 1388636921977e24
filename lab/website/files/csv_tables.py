"""The tables behind an experiment's page as CSV (RFC 4180): the values of its data.json, unit in the column's name.

Every row says which evidence it is of (by as much of its digest as the address of its run has) and on which machine,
so that a row which was copied elsewhere still does.
A value that there is none of is empty; of an experiment that nobody measured, the rows say what is registered.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from lab.definition.experiment import COLD, SCOPES
from lab.quantities import COUNTERS
from lab.website.addresses import short
from lab.website.data.judged import Judged
from lab.website.data.published_limits import LIMIT_SCOPES
from lab.website.figure import DataView
from lab.website.outputs import Attachment, SiteContext

Keys = Mapping[str, Any]  # what tells a row from others, and what its plan says of it
Column = tuple[str, tuple[str, ...]]  # its name, and the path of its datum; no path where the keys hold it
Group = tuple[tuple[str, ...], list[str]]

CASE = ("op", "shape", "dtype", "included", "least_bytes", "flops", "tokens")
INTERVAL = ("ratio", "low", "high")
CALL = ("dram_bytes", *(name for name, counter in COUNTERS.items() if counter.over_call))


def _keys(*names: str) -> list[Column]:
    return [(name, ()) for name in names]


def _of(path: str, names: str | Sequence[str], prefix: str = "") -> list[Column]:
    """Columns called as their data, after `prefix`. A part of the path in braces is one of the keys."""
    names = names.split() if isinstance(names, str) else names
    return [(f"{prefix}_{name}" if prefix else name, (*path.split("/"), name)) for name in names]


def _cells(item: Judged) -> Iterator[Keys]:
    return ({"case": case, "profile": each} for case, cells in item.data["cells"].items() for each in cells)


def _claims(item: Judged) -> Iterator[Keys]:
    for claim in item.plan.claims:
        for case, verdict in item.data["claims"][claim.name]["cases"].items():
            yield {
                "claim": claim.name, "headline": claim.name in item.plan.headlines,
                "subject": claim.subject, "baseline": claim.baseline, "case": case,
                "sweeps": len(verdict.get("sweep_ratios", ())),
            }  # fmt: skip


def _comparisons(item: Judged) -> Iterator[Keys]:
    for case, subjects in item.data["against"].items():
        for subject, baselines in subjects.items():
            yield from ({"case": case, "subject": subject, "baseline": baseline} for baseline in baselines)


def _kernels(seen_by: str) -> Callable[[Judged], Iterator[Keys]]:
    """The kernels of each cell, as the profiler or the compiler saw them."""

    def rows(item: Judged) -> Iterator[Keys]:
        for keys in _cells(item):
            kernels = item.cell(keys["case"], keys["profile"]).get(seen_by, {}).get("kernels", ())
            yield from ({**keys, "kernel": str(number)} for number in range(len(kernels)))

    return rows


def _ceilings(item: Judged) -> Iterator[Keys]:
    """The memory's by size and scope, then the matrix units' by kind of product; only of what the run measured."""
    ceilings = item.data["ceilings"] or {}
    for kind in ("copies", "reads"):
        for scope, rungs in ceilings.get(kind, {}).items():
            yield from ({"of": kind, "scope": scope, "group": kind, "within": scope, "number": str(number)}
                        for number in range(len(rungs)))  # fmt: skip
    for kind in ceilings.get("matrix", {}):
        yield {"of": f"products of {kind}", "scope": COLD, "group": "matrix", "within": kind, "number": ""}


# By name: its rows and its columns.
TABLES: Mapping[str, tuple[Callable[[Judged], Iterator[Keys]], Sequence[Column]]] = {
    "cells": (_cells, [
        *_keys("case"), *_of("cases/{case}", CASE), *_keys("profile"),
        *_of("cells/{case}/{profile}", "outcome reason sweeps between_sweep_spread bytes_per_second enqueue_seconds "
             "prepare_seconds peak_memory_bytes graph_memory_bytes launch_bound host_bound worst_absolute_error "
             "worst_tolerance_share correctness_checks"),
        *(column for scope in SCOPES for column in _of(f"cells/{{case}}/{{profile}}/scopes/{scope}",
          "p50_seconds p95_seconds noise_ratio samples void_share tokens_per_second", scope)),
        *_of("limits/{case}/profiles/{profile}", "flops_per_second"),
        *(column for scope in LIMIT_SCOPES for column in _of(f"limits/{{case}}/profiles/{{profile}}/{scope}",
          "attained distance_seconds", scope)),
        *_of("cells/{case}/{profile}/counters", "outcome launches", "ncu"),
        *_of("cells/{case}/{profile}/counters/call", CALL, "ncu"),
        *_of("cells/{case}/{profile}/traffic", "ratio state reason", "traffic"),
        *_of("explained/{case}/{profile}", "fastest time_ratio bytes_ratio explained", "beside_fastest"),
        *_of("searches/{case}/trials/{profile}", "sweeps_ahead", "search"),
    ]),
    "claims": (_claims, [
        *_keys("claim", "headline", "subject", "baseline"),
        *_of("claims/{claim}", "measure scope threshold expected"), *_of("claims/{claim}", ["status"], "claim"),
        *_keys("case"), *_of("cases/{case}", CASE[:3]),
        *_of("claims/{claim}/cases/{case}", ("status", "mark", "reason", *INTERVAL, "subject_bytes", "baseline_bytes")),
        *_keys("sweeps"),
        *(column for part in ("end_to_end", "device", "launch")
          for column in _of(f"splits/{{case}}/{{claim}}/{part}", INTERVAL, part)),
    ]),
    "cases": (lambda item: (
        {"case": case} for case in item.data["cases"]
    ), [
        *_keys("case"), *_of("cases/{case}", CASE), *_of("limits/{case}", "flops_per_byte"),
        *((f"{scope}_{name}", ("limits", "{case}", "scopes", scope, datum)) for scope in LIMIT_SCOPES
          for name, datum in (("limit", "limit"), ("limit_seconds", "seconds"))),
        *_of("controls/{case}", "profile spoiled_share spoiled_because", "control"),
        *(column for scope in SCOPES
          for column in _of(f"controls/{{case}}/scopes/{scope}", INTERVAL, f"control_{scope}")),
        *_of("gpu/{case}", "rounds lowest_spin_hertz lowest_sm_hertz largest_power_watts largest_temperature_celsius "
             "energy_joules_per_sweep power_capped_share"),
    ]),
    "comparisons": (_comparisons, [
        *_keys("case", "subject", "baseline"), *_of("against/{case}/{subject}/{baseline}", INTERVAL),
    ]),
    "kernels": (_kernels("counters"), [
        *_keys("case", "profile"), *_of("cells/{case}/{profile}/counters/kernels/{kernel}", (
            "name", "grid", "block", *COUNTERS, "top_stall", "top_stall_warps", "limiters")),
    ]),
    "compiled": (_kernels("compiled"), [
        *_keys("case", "profile"), *_of("cells/{case}/{profile}/compiled/kernels/{kernel}",
                                        "name registers_per_thread spills shared_bytes warps stages code_sha256"),
    ]),
    "ceilings": (_ceilings, [
        *_keys("of", "scope"), *_of("ceilings/{group}/{within}/{number}",
                                    "bytes seconds bytes_per_second peak_share profile flops_per_second"),
    ]),
}  # fmt: skip

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# What a spreadsheet takes for the start of a formula; after a semicolon too, which parts fields in many languages.
FORMULA = re.compile(r"(^\s*|;\s*)(?=[=+\-@＝＋－＠])|^(?=[\t\r\n])")
NUMBERS = (float, int, type(None))  # most of every table
SOURCE = ("device", "machine", "run_id", "evidence_digest")


def experiment_csv_files(context: SiteContext) -> Iterator[Attachment]:
    """The tables of every experiment, beside its page."""
    for item in context.current:
        yield from csv_files(item, f"experiments/{item.plan.name}")


def tables_of(item: Judged) -> tuple[str, ...]:
    """The file names of an experiment's tables, for the page that they lie beside."""
    return tuple(f"{name}.csv" for name in TABLES if _is_written(item, name))


def csv_files(item: Judged, folder: str, names: Sequence[str] = tuple(TABLES)) -> Iterator[Attachment]:
    """The tables of an experiment that have rows, `cells.csv` and `claims.csv` always."""
    source = _source(item)
    for name in names:
        rows, columns = TABLES[name]
        if _is_written(item, name):
            view, groups = DataView(item.data), GROUPS[name]
            values = (_values(view, keys, groups) + source for keys in rows(item))
            yield Attachment(path=f"{folder}/{name}.csv", content=csv_text((*(c for c, _ in columns), *SOURCE), values))


def _groups(columns: Sequence[Column]) -> list[Group]:
    """Neighbouring columns whose data stand at one place, and their names there; those of the keys at none."""
    groups: list[Group] = []
    for name, path in columns:
        if not groups or groups[-1][0] != path[:-1]:
            groups.append((path[:-1], []))
        groups[-1][1].append(path[-1] if path else name)
    return groups


GROUPS = {name: _groups(columns) for name, (_, columns) in TABLES.items()}


def _values(view: DataView, keys: Keys, groups: Sequence[Group]) -> list[Any]:
    values: list[Any] = []
    within = {f"{{{name}}}": value for name, value in keys.items()}
    for place, names in groups:
        node = view.value(*filter(None, [within.get(part, part) for part in place])) if place else keys
        values += map(node.get, names) if node else [None] * len(names)
    return values


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([value if type(value) in NUMBERS else _plain(value) for value in row] for row in rows)
    return text.getvalue()


def _is_written(item: Judged, name: str) -> bool:
    return name in ("cells", "claims") or next(iter(TABLES[name][0](item)), None) is not None


def _source(item: Judged) -> list[str]:
    machine: Mapping[str, Any] = item.machine
    name = machine.get("cpu", "") if item.on_cpu else machine.get("gpu", "")
    return [str(machine.get("device", "")), str(name), str(item.evidence.get("run_id", "")), short(item.digest)]


def _plain(value: Any) -> Any:
    """As JSON has it; lists in one field; a text can be no formula and holds no control character."""
    if type(value) is str:
        return _harmless(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        whole = all(isinstance(each, int) for each in value)
        return _plain(("x" if whole else " ").join(map(str, value)))
    return _harmless(value) if isinstance(value, str) else value


@lru_cache(maxsize=1 << 14)
def _harmless(value: str) -> str:
    """The same few names stand in every row of a table."""
    return FORMULA.sub(r"\1'", CONTROL.sub("\ufffd", value))
