"""JSON Schemas (draft 2020-12) of the site's data files, derived from shapes: Python's own types, and a few more.

A dict is a closed record, whose keys may name several fields of one shape; those after a '?' may be missing, and ''
says what the record is. A list holds any number of its first element, a tuple is a choice of texts. A dataclass is a
record of its fields, for data that are such values. The unit of a number comes from its name, out of lab.quantities.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lab.definition.experiment import MEASURES
from lab.evidence.record import Compiled, Kernel, Machine
from lab.quantities import COUNTERS, unit_of
from lab.verdict.judge import READING_ORDER
from lab.verdict.ranking import Place
from lab.verdict.traffic import DramTraffic
from lab.website.data.judged import LEFT_OUT, json_text
from lab.website.outputs import Attachment, PageGroup, SiteContext

Schema = dict[str, Any]
PLAIN: Mapping[Any, Schema] = {
    str: {"type": "string"}, bool: {"type": "boolean"}, int: {"type": "integer", "minimum": 0},
    float: {"type": "number"},
}  # fmt: skip


class By(NamedTuple):
    """An object of any number of properties, all alike."""

    key: str
    shape: Any
    about: str = ""


class Ref(NamedTuple):
    name: str


class Said(NamedTuple):
    """A shape with a description."""

    shape: Any
    about: str


class Maybe(NamedTuple):
    """Or null, where there is none."""

    shape: Any


class Either(NamedTuple):
    shapes: tuple[Any, ...]


class Pattern(NamedTuple):
    text: str


def schema_of(shape: Any) -> Schema:
    match shape:
        case dict():
            return _record(shape)
        case list():
            described = {"description": shape[1]} if len(shape) > 1 else {}
            return {"type": "array", "items": schema_of(shape[0])} | described
        case By(key, inner, about):
            described = {"description": f"By {key}. {about}".rstrip()}
            return {"type": "object"} | described | {"additionalProperties": schema_of(inner)}
        case Ref(name):
            return {"$ref": f"#/$defs/{name}"}
        case Said(inner, about):
            return schema_of(inner) | {"description": about}
        case Maybe(inner):
            nullable = schema_of(inner)
            null = {"anyOf": [nullable, {"type": "null"}]}
            return null if "$ref" in nullable else nullable | {"type": [nullable["type"], "null"]}
        case Either(shapes):
            return {"anyOf": list(map(schema_of, shapes))}
        case Pattern(text):
            return {"type": "string", "pattern": text}
        case tuple():
            return {"type": "string", "enum": list(shape)}
    return dict(PLAIN[shape]) if shape in PLAIN else _of_hint(shape)


def fields_of(kind: type) -> dict[str, Any]:
    """The shapes of a dataclass's fields, from their types."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _of_hint(hint: Any) -> Schema:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return schema_of(fields_of(hint))
    if origin in (typing.Union, types.UnionType):
        return schema_of(Maybe(next(each for each in arguments if each is not type(None))))
    if origin is tuple:
        return schema_of([arguments[0]])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return schema_of(By("name", arguments[1]))
    raise TypeError(f"{hint} has no JSON Schema here; accepted are texts, numbers, lists, mappings and dataclasses")


def _record(shape: Mapping[str, Any]) -> Schema:
    """Closed: no properties but these."""
    names = {name: inner for key, inner in shape.items() for name in key.removeprefix("?").split()}
    required = sorted(name for key in shape if not key.startswith("?") for name in key.split())
    properties = {name: _with_unit(name, schema_of(inner)) for name, inner in names.items()}
    about = {"description": shape[""]} if "" in shape else {}
    return about | {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def _with_unit(name: str, schema: Schema) -> Schema:
    if "description" in schema or schema.get("type") in ("object", "array", "boolean"):
        return schema
    unit = unit_of(name).about
    return schema | {"description": unit} if unit else schema


def _document(name: str, title: str, about: str, body: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    """A whole schema. Its `$id` is its own name, so that it holds wherever the site is published."""
    record = schema_of({key: inner for key, inner in body.items() if key})
    pointer = schema_of(Said(str, "Where this schema lies, from the file."))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{name}.json", "title": title, **record,
        "description": about, "properties": {"$schema": pointer, **record["properties"]},
        **({"$defs": {each: schema_of(shape) for each, shape in defs.items()}} if defs else {}),
    }  # fmt: skip


SCOPE, MAYBE = "scope", float | None
STATUS = tuple(map(str, READING_ORDER))
DIGEST, SHA256 = Pattern("^([0-9a-f]{64})?$"), Pattern("^[0-9a-f]{64}$")
INTERVAL, SPEEDUP = {"ratio low high": float}, {"?ratio low high": float}
CALL_COUNTERS = " ".join(name for name, counter in COUNTERS.items() if counter.over_call)
# lab.website.data.published.experiment_data.
CELL = {
    "outcome": Said(str, "'measured', 'wrong', 'failed', 'crashed', 'skipped', 'not-planned' or 'unfinished'."),
    "reason": str, "?p50_seconds between_sweep_spread void_share": float,
    "?p95_seconds noise_ratio bytes_per_second enqueue_seconds prepare_seconds": MAYBE,
    "?peak_memory_bytes": Said(
        int | None, "The most that one call allocates beyond its inputs; null where nobody asked."
    ),
    "?sweep_p50_seconds": [float, "In seconds, the median of each sweep."],
    "?samples sweeps correctness_checks": int,
    "?scopes": By(SCOPE, Ref("scope_times")), "?unmeasured": By(SCOPE, str, "Why it has no time."),
    "?launch_bound host_bound": bool, "?impossible": By(SCOPE, str, "Why no honest time can be so short."),
    "?worst_absolute_error worst_tolerance_share": MAYBE, "?edges": By("edge input", str),
    "?counters": {
        "": "One call as the profiler saw it: its kernels, and sums or duration-weighted means over them.",
        "outcome reason blocker ncu metric_set cache_control clock_control": str, "report_sha256": DIGEST,
        "report_bytes launches": int,
        "kernels": [{
            "": "`stalls`: warps that waited for each reason, per instruction issued; blocks by what limits them.",
            **fields_of(Kernel), "top_stall": str, "top_stall_warps": MAYBE, "limiters": [str],
        }],
        f"?dram_bytes {CALL_COUNTERS}": MAYBE,
    },
    "?traffic": {
        **fields_of(DramTraffic), "ratio": Said(float, "DRAM bytes counted over the least that must be moved."),
        "state": ("reconciled", "excess", "cached-writes", "unreconciled"),
    },
    "?compiled": {
        "": "Its Triton kernels, as first compiled; `variants` counts the codes that were seen over all sweeps.",
        "kernels": [Compiled], "variants": int, "compile_seconds autotune_seconds": MAYBE,
    },
    "?draws": {
        "": "Which code each sweep drew, by the SHA-256 of its kernels, and what it cost.",
        "fresh": Said(bool, "Whether every sweep compiled and chose anew."), "codes": int,
        "sweeps": [{"sweep": int, "code configuration blind": str,
                    "p50_seconds compile_seconds autotune_seconds": MAYBE}],
    },
    "": "The times are of the scope device_cold; those of every scope stand under `scopes`.",
}  # fmt: skip
CLAIM = {
    "status": STATUS, "mark": Said(str, "“one draw” where the verdict rests on such evidence."),
    "measure": MEASURES, "threshold": float, "scope": str,
    "expected": [STATUS, "Of a test of the lab itself: what a sound instrument may say."],
    "cases": By("case", {
        "status": STATUS, "mark reason": str,
        "?ratio low high run_low run_high subject_bytes baseline_bytes": MAYBE,
        "?sweep_ratios": [float, "The ratio of each sweep by itself."],
        "?quotient_of_medians": Said(
            float, "Of the two medians that are shown, where it is not the ratio: that is of paired rounds."
        ),
        "": "From low to high is the interval for any board of the GPU model, from run_low to run_high that of this "
            "run alone.",
    }),
    "judged compared supported ties": int, "?smallest_ratio largest_ratio geometric_mean": float,
    "": "Smallest, largest and mean are of the ratios that were fit to be weighed.",
}  # fmt: skip
EVIDENCE = {
    "": "Which run it is, how it measured, and what it is addressed by; of a preview the digest is empty.",
    "digest": DIGEST,
    "commit run_id metric_set cut_short source_digest plan_digest started_utc finished_utc": str,
    "schema_of_run policy_version_of_run sweeps fewest_sweeps most_sweeps rounds block": int,
    "launch_floor_seconds empty_seconds median_launch_floor_seconds median_empty_seconds": float,
    "profiling instruments": bool, "experiments": [str, "All that the run measured."],
    "include": [str, "The --include flags that it was given, without the prefix."], "processes": int,
    "wall_seconds profiling_seconds": MAYBE, "stage_seconds": By("stage", float, "In seconds, over all sweeps."),
    "damages": By("line of the journal", str, "Why it was not used."),
}  # fmt: skip
CEILINGS = {
    "": "What this GPU can do at most: as this run measured it, and as its datasheet says.",
    "run_id": str, "copies reads": By(SCOPE, [Ref("rung")]),
    "matrix": By("kind of product", {"flops_per_second seconds": float, "profile case": str, "peak_share": MAYBE}),
    "launch_floor_seconds": float, "l2_bytes": int,
    "datasheet": Maybe({"gpu source": str, "bytes_per_second": float, "l2_bytes": int,
                        "flops_per_second": By("kind of product", float)}),
}  # fmt: skip
LIMITS = By(
    "case",
    {
        "flops_per_byte": float, "scopes": By(SCOPE, {"limit": ("memory", "matrix"), "seconds": float}),
        "profiles": By("profile", {"?device_cold graph": Ref("light"), "?flops_per_second": float}),
    },
    "Null as a whole where the run did not measure its ceilings.",
)  # fmt: skip
LIMITED_GPU = {"gpu": str, "bytes_per_second cache_bytes": MAYBE}
REPLICATION = {
    "": "Cases of a publication, measured again.",
    "publication": str, "there": LIMITED_GPU, "here": Maybe(LIMITED_GPU),
    "measured": By("case", {"outcome": str, "?rival": str, "?over_rival": Ref("interval"), "?loop_ratio": MAYBE,
                            "?over_baseline": By(SCOPE, Ref("interval"))}),
    "tables": By("table of the publication", By("case", {
        "baseline_seconds subject_seconds ratio": MAYBE, "factors": By("cause", MAYBE),
        "by_itself reasons": Ref("words"),
    })),
}  # fmt: skip
SAVED = {"": "Seconds of one call of the model, with their interval.", "seconds low_seconds high_seconds": float}
BREAKDOWN = {
    "": "What kernels should save in a whole model, from their own times, and what they saved.",
    "case baseline together": str, "baseline_seconds gap_seconds predicted_ratio measured_ratio": float,
    "predicted measured": SAVED,
    "agrees": Said(bool, "Whether the two intervals meet."),
    "rows": [{
        "title case profile alone": str, "calls": int, "baseline_seconds subject_seconds": float,
        "added": Said(bool, "Whether it is a part of the predicted sum."),
        "predicted": SAVED, "measured": Maybe(SAVED),
    }],
}  # fmt: skip
EXPERIMENT = {
    "schema policy_version": int, "experiment title question": str, "evidence": Maybe(EVIDENCE),
    "machine": Maybe({"": "Where it was measured. Empty or 0 is unknown.", **fields_of(Machine),
                      "device": ("cuda", "cpu")}),
    "ceilings": Maybe(CEILINGS), "limits": Maybe(LIMITS),
    "clock_step_seconds": By(SCOPE, float, "In seconds, the least that the clock tells apart."),
    "counts": By("outcome of a cell; cases, profiles; claims of known verdict, and those that are right", int),
    "cases": By("case", {"op dtype": str, "shape": [int], "least_bytes flops": int, "included": bool}),
    "places": By("case", By(SCOPE, [{
        "": "`level`: shown to be slower than none; `proven`: enough sweeps to tell.",
        "profile": str, **{name: kind for name, kind in fields_of(Place).items() if name != "lead"},
    }, "The fastest first."])),
    "contest": By("case", By(SCOPE, [{
        "": "`ratio`: how many times as fast the fastest is, with its interval; nothing of the fastest itself.",
        "family profile": str, "times_fastest": float, "level proven": bool, **SPEEDUP,
    }, "One implementation of each family, the fastest first."])),
    "measured": By("case", [str], "The profiles that any sweep measured, also where the result is wrong."),
    "cells": By("case", By("profile", CELL)),
    "clocks": By("case", By("claim", {
        "": "What other clocks say of a pair that a claim compares in device_cold.",
        "turned": [str, "By which the ratio lies on the other side of the threshold."],
        "?device_dirty": Ref("interval"), "?dirty_flush do_bench nvbench": {"ratio": float},
    })),
    "claims": By("claim", CLAIM),
    "controls": By("case", {
        "": "One profile against itself under another name: the lab's own error at this case.",
        "profile": str, "scopes": By(SCOPE, Ref("interval")),
        "spoiled_share": Said(float, "Of the rounds: those left out, as a share of 1."), "spoiled_because": [str],
    }),
    "gpu": By("case", {
        "": "What the GPU went through while a case was timed.", "rounds": int, "power_capped": bool,
        "lowest_spin_hertz lowest_sm_hertz largest_power_watts largest_temperature_celsius "
        "energy_joules_per_sweep": MAYBE,
        "blind": [str, "Why nothing was told, where nothing was."],
    }),
    "splits": By("case", By("claim", {"end_to_end device launch": Maybe(Ref("interval"))},
                            "An eager speed-up is its device's part times its launch's.")),
    "explained": By("case", By("profile", {"fastest": str, "time_ratio bytes_ratio": MAYBE, "explained": bool,
                                           "others": [str]}, "Beside the fastest of the case.")),
    "searches": By("case", {
        "winner scope": str, "sweeps_fastest": int, "claims": [str, "Those of the trials, the fastest first."],
        "trials": By("profile", {"sweeps_ahead sweeps": int}),
    }),
    "against": By("case", By("subject", By("baseline", Maybe(Ref("interval"))))),
    "?replication": REPLICATION, "?breakdown": BREAKDOWN,
}  # fmt: skip
DEFS = {
    "interval": {"": "Time of the baseline over time of the subject, with its 95 % interval over sweeps.", **INTERVAL,
                 "?quotient_of_medians": float},
    "scope_times": {"p50_seconds fastest_sweep_seconds slowest_sweep_seconds void_share": float,
                    "p95_seconds noise_ratio": MAYBE, "samples": int},
    "rung": {"bytes": int, "seconds bytes_per_second": float, "peak_share": MAYBE, "profile": str},
    "words": [[Either((str, {"value": float, "unit": str}))], "Sentences, as texts and amounts."],
    "light": {"": "`attained`: the time at the ceiling that limits the case, as a share of the measured one.",
              "attained distance_seconds": float, "cache_resident_bytes": int | None},
}  # fmt: skip
COMPARISON = {
    "older newer": SHA256,
    "one_machine": Said(bool, "Whether both runs measured the same card: only then are times divided."),
    "counts": {"": "How many came out otherwise, and of how many.", "claims changed cells moved": int},
    "experiments": By("experiment", {
        "times": By("case", By("profile", {
            "": "Time in the newer run over that in the older, of the geometric means of the sweeps' medians, with "
                "Welch's interval over sweeps; above 1 the newer took longer.",
            **INTERVAL, "moved": Said(bool, "Whether the whole interval lies beyond the margin of equivalence."),
        }), "Empty where they had different cards."),
        "verdicts": By("claim", {"": "Verdicts of both runs, judged by the rules of today.", "older newer": STATUS}),
    }, "Those that both runs have."),
}  # fmt: skip
OVERVIEW = {
    "claims": int, "verdicts": {" ".join(READING_ORDER): int},
    "shapes": By("GPU", By("call mode", By("case", {
        "gpu mode case op dtype experiment digest date best": str, "shape": [int],
        "cells": By("family", {
            "": "`call`: `tie` within 2 % of the fastest where none is shown to be ahead; `unproven` where too few "
                "sweeps were measured, or they scatter too much, to tell.",
            "profile": str, "p50_seconds": float, "call": ("best", "tie", "slower", "unproven"),
            "?times_fastest": float,
        }),
        "margin": {"": "Of the fastest over the next.", "over": str, **SPEEDUP},
        "range": {"": "Of the fastest one's median, over repeated runs of the same source, or else over sweeps of one "
                      "run.",
                  "least_seconds most_seconds": float, "?runs boards sweeps": int},
    }))),
}  # fmt: skip
TRUST = {
    "schema policy_version sessions": int, "same controls": Ref("counts"), "same_by_case": By("case", Ref("counts")),
    "power": By("claim", {
        "known_ratio": float, "right": Said(int | None, "Null where any verdict would be right."),
        "trials withheld excluding_one covering": int,
    }, "Effects of known size, and how often the rule saw them."),
    "repeatability": By("number", {
        "": "Pairs of runs of one source: intervals that hold the other estimate, differences that hold zero, "
            "verdicts.",
        "gpu": str, "one_draw": Said(bool, "Whether a side rests on one choice of an autotuner."),
        "run_ids": [str], "boards runs pairs flipped": int, "holding_share zero_share changed_share": float,
    }),
    "pooled": By("experiment", By("gpu", By("claim", By("case", {
        "": "Three and more runs of unchanged code taken together, with the run as the unit.",
        **INTERVAL, "boards run_count": int, "runs": [str],
    })))),
    "repeats": By("number", {
        "": "An experiment that was measured again on a GPU of the same name.", "experiment gpu largest_at": str,
        "gpus runs sources cells within comparisons disjoint_count changed_count flip_count": int,
        "largest_deviation": MAYBE, "disjoint changed flips": [str],
    }),
    "repeated": {"": "Of all repeats together.", "flip_count comparisons": int},
    "instruments": By("case and profile", {
        "p50_seconds dirty_flush_seconds do_bench_seconds nvbench_seconds": MAYBE,
        "do_bench_agrees do_bench_agrees_cold nvbench_agrees nvbench_agrees_cold": bool,
    }),
    "agreement": {"cells claims claims_turned cold_above_dirty do_bench_agrees do_bench_agrees_cold nvbench_agrees "
                  "nvbench_agrees_cold": int},
    "flush": By("run", {"footprint_bytes": int, "flushed_read_bytes warm_read_bytes": MAYBE}),
    "clock": By("run", {"clock_step_seconds empty_seconds launch_floor_seconds largest_off": MAYBE,
                        "canaries off": int}),
    "cost": By("run", {
        "wall_seconds profiling_seconds timing_seconds_per_cell_and_sweep gpu_seconds_per_cell_and_sweep": MAYBE,
        "sweeps cells": int, "stage_seconds": By("stage", float, "In seconds, over all sweeps."),
    }),
}  # fmt: skip
COUNTS = {
    "": "Of the same code under two names: how often it won.", "comparisons supported excluding_one": int,
    "largest_supported_rate": Said(MAYBE, "With 95 % confidence no more are supported, as a share of 1."),
}  # fmt: skip
PUBLICATION = {
    "source": str, "rows statements sound_rows findings rules_broken": int,
    "rules": By("rule", {"count": int, "findings": By("number", {
        "table row": str, "printed allowed": Maybe(Ref("amount")),
        "text": [Either((str, Ref("amount"))), "Its sentence, as texts and amounts."],
    })}),
}  # fmt: skip
METHODS = {
    "rules": By("rule", int, "How often it fired."), "rule_count publication_count rows findings": int,
    "own": {"pages tables rows statements findings": int}, "own_pages": By("experiment", PUBLICATION),
    "publications": By("publication", PUBLICATION),
    "same_kernel": {"?theirs same beyond": {
        "": "One operator as one profiler saw it.", "gpu shape": str,
        "?least_bytes read_bytes written_bytes l2_bytes seconds dram_share occupancy_share occupancy_limit_share "
        "registers_per_thread launch_floor_seconds sm_hertz": MAYBE,
    }},
}  # fmt: skip
AMOUNT = {"": "SI; the unit stands beside it.", "value": float, "unit": str}
MANIFEST = {"schema": int, "files": By("path from the site's root", {"bytes": int, "sha256": SHA256})}
# By file: title, what it is, shape, and the shapes that it refers to.
DOCUMENTS: Mapping[str, tuple[str, str, Mapping[str, Any], Mapping[str, Any]]] = {
    "experiment": (
        "An experiment's results", "Everything that an experiment's page shows of one published run, SI units, seven "
        "significant digits. Where no run was published `evidence` and `machine` are null.", EXPERIMENT, DEFS,
    ),
    "verdict": (
        "An experiment's verdicts in one run", "What the page of an experiment's verdicts in one published run shows, "
        "as in the schema `experiment`.", {key: EXPERIMENT[key] for key in EXPERIMENT if key not in LEFT_OUT}, DEFS,
    ),
    "comparison": (
        "Two runs side by side", "What neither run's own data can say. Times and verdicts of each run stand under "
        "runs/, by its digest.", COMPARISON, {},
    ),
    "overview": (
        "Who is fastest, and all verdicts, counted", "At each shape every family's time; how many claims on kernels "
        "have each verdict, without tests of the lab itself.", OVERVIEW, {},
    ),
    "trust": (
        "How far to trust the lab", "Error rates and cost of the lab itself, SI units.", TRUST, {"counts": COUNTS}
    ),
    "methods": (
        "What the guard refuses", "What the guard asks of published figures, and what it finds.", METHODS,
        {"amount": AMOUNT},
    ),
    "manifest": ("Every file of the site", "What each file of the site must be, but this one.", MANIFEST, {}),
}  # fmt: skip


def schema(name: str) -> Schema:
    """Of the data files of a kind: a key of DOCUMENTS."""
    return _document(name, *DOCUMENTS[name])


def schema_files(context: SiteContext) -> Iterator[PageGroup]:
    """schemas/<name>.json: the same whatever was measured."""
    yield PageGroup(name="schemas", shows=(), make=_files)


def _files() -> Iterator[Attachment]:
    for name in DOCUMENTS:
        yield Attachment(path=f"schemas/{name}.json", content=json.dumps(schema(name), indent=1) + "\n")


def data_text(data: Mapping[str, Any], path: str, schema: str, indent: int | None = 1) -> str:
    """The text of a data file that lies at `path`, with the way from there to its schema."""
    text = json_text(data) if indent else json.dumps(data, separators=(",", ":")) + "\n"
    return with_schema(text, path, schema)


def with_schema(text: str, path: str, schema: str) -> str:
    """The same of data that are text already."""
    pointer = "../" * path.count("/") + f"schemas/{schema}.json"
    return f'{{\n "$schema": "{pointer}",{text.removeprefix("{")}'
