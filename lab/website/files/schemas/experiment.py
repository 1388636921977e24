"""The schema of an experiment's data.json: lab.website.data.published.experiment_data."""

from lab.verdict.judge import READING_ORDER
from lab.website.files.schemas.words import (
    NUMBER,
    TEXT,
    TRUTH,
    WHOLE,
    Schema,
    all_of,
    by,
    choice,
    document,
    listing,
    maybe,
    record,
    ref,
    said,
)  # fmt: skip

SCOPE = "scope"
STATUS = choice(*map(str, READING_ORDER))
OUTCOME = said(TEXT, "'measured', 'wrong', 'failed', 'crashed', 'skipped', 'not-planned' or 'unfinished'.")
ANY_NUMBER = maybe(NUMBER)
DEFS: dict[str, Schema] = {
    "interval": record(
        all_of(NUMBER, "ratio low high"),
        {"quotient_of_medians": NUMBER},
        about="Time of the baseline over time of the subject, with its 95 % interval over sweeps.",
    ),
    "scope_times": record(
        {
            **all_of(NUMBER, "p50_seconds void_share"),
            **all_of(ANY_NUMBER, "p95_seconds noise_ratio"),
            "samples": WHOLE,
        }
    ),
    "rung": record({"bytes": WHOLE, **all_of(NUMBER, "seconds bytes_per_second"), "peak_share": ANY_NUMBER,
                    "profile": TEXT}),
    "words": listing(
        listing({"anyOf": [TEXT, record({"value": NUMBER, "unit": TEXT})]}), "Sentences, as texts and amounts."
    ),
    "light": record(
        {**all_of(NUMBER, "attained distance_seconds"), "cache_resident_bytes": maybe(WHOLE)},
        about="`attained`: the time at the ceiling that limits the case, as a share of the measured one.",
    ),
}  # fmt: skip
EVIDENCE = record(
    {
        "digest": {"type": "string", "pattern": "^([0-9a-f]{64})?$"},
        **all_of(TEXT, "commit run_id metric_set cut_short source_digest plan_digest started_utc finished_utc"),
        **all_of(WHOLE, "schema_of_run policy_version_of_run sweeps fewest_sweeps most_sweeps rounds block"),
        **all_of(NUMBER, "launch_floor_seconds empty_seconds median_launch_floor_seconds median_empty_seconds"),
        **all_of(TRUTH, "profiling instruments"),
        "experiments": listing(TEXT, "All that the run measured."),
        "include": listing(TEXT, "The --include flags that it was given, without the prefix."),
        "processes": WHOLE,
        **all_of(ANY_NUMBER, "wall_seconds profiling_seconds"),
        "stage_seconds": by("stage", NUMBER, "In seconds, over all sweeps."),
        "damages": by("line of the journal", TEXT, "Why it was not used."),
    },
    about="Which run it is, how it measured, and what it is addressed by; of a preview the digest is empty.",
)
MACHINE = record(
    {
        "device": choice("cuda", "cpu"),
        **all_of(TEXT, "gpu gpu_id compute_capability ecc mig persistence driver cuda torch triton ncu liger quack "
                 "python os cpu"),
        **all_of(WHOLE, "multiprocessors memory_bytes l2_bytes cpu_count"),
        **all_of(NUMBER, "peak_bytes_per_second power_limit_watts sm_clock_hertz memory_clock_hertz"),
        "environment": by("variable", TEXT),
    },
    about="Where it was measured. Empty or 0 is unknown.",
)  # fmt: skip
CEILINGS = record(
    {
        "run_id": TEXT,
        **all_of(by(SCOPE, listing(ref("rung"))), "copies reads"),
        "matrix": by(
            "kind of product",
            record({**all_of(NUMBER, "flops_per_second seconds"), **all_of(TEXT, "profile case"),
                    "peak_share": ANY_NUMBER}),
        ),
        "launch_floor_seconds": NUMBER,
        "l2_bytes": WHOLE,
        "datasheet": maybe(
            record({**all_of(TEXT, "gpu source"), "bytes_per_second": NUMBER, "l2_bytes": WHOLE,
                    "flops_per_second": by("kind of product", NUMBER)})
        ),
    },
    about="What this GPU can do at most: as this run measured it, and as its datasheet says.",
)  # fmt: skip
LIMITS = by(
    "case",
    record(
        {
            "flops_per_byte": NUMBER,
            "scopes": by(SCOPE, record({"limit": choice("memory", "matrix"), "seconds": NUMBER})),
            "profiles": by("profile", record({}, {**all_of(ref("light"), "device_cold graph"),
                                                  "flops_per_second": NUMBER})),
        }
    ),
    "Null as a whole where the run did not measure its ceilings.",
)  # fmt: skip
CASE = record({**all_of(TEXT, "op dtype"), "shape": listing(WHOLE), **all_of(WHOLE, "least_bytes flops"),
               "included": TRUTH})  # fmt: skip
KERNEL = record(
    {
        **all_of(TEXT, "name grid block"),
        **all_of(ANY_NUMBER, "duration_seconds dram_read_bytes dram_written_bytes dram_percent occupancy_percent "
                 "registers_per_thread shared_bytes_per_block theoretical_occupancy_percent l2_hit_percent sm_percent "
                 "tensor_percent sm_hertz top_stall_warps"),
        "top_stall": maybe(TEXT),
        "limiters": listing(TEXT),
        "blocks_per_multiprocessor": by("what limits them", NUMBER),
        "stalls": by("reason", NUMBER, "Warps that waited for it, per instruction issued."),
    }
)  # fmt: skip
COUNTERS = record(
    {
        **all_of(TEXT, "outcome reason blocker ncu metric_set cache_control clock_control"),
        "report_sha256": {"type": "string", "pattern": "^([0-9a-f]{64})?$"},
        **all_of(WHOLE, "report_bytes launches"),
        "kernels": listing(KERNEL),
    },
    all_of(ANY_NUMBER, "duration_seconds dram_bytes dram_read_bytes dram_written_bytes dram_percent occupancy_percent "
           "theoretical_occupancy_percent l2_hit_percent sm_percent tensor_percent"),
    about="One call as the profiler saw it: its kernels, and sums or duration-weighted means over them.",
)  # fmt: skip
TRAFFIC = record(
    {
        **all_of(NUMBER, "read_bytes written_bytes pending_bytes recounted_bytes unseen_bytes"),
        "ratio": said(NUMBER, "DRAM bytes counted over the least that must be moved."),
        "kernels": WHOLE,
        "state": choice("reconciled", "excess", "cached-writes", "unreconciled"),
        "reason": TEXT,
    }
)
COMPILED = record(
    {
        "kernels": listing(
            record({"name": TEXT, "code_sha256": TEXT, "configuration": by("constant", TEXT),
                    **all_of(WHOLE, "registers_per_thread spills shared_bytes warps stages"),
                    "generator": TEXT, "candidates": maybe(WHOLE), "autotune_seconds": ANY_NUMBER})
        ),
        "variants": WHOLE,
        **all_of(ANY_NUMBER, "compile_seconds autotune_seconds"),
    },
    about="Its Triton kernels, as first compiled; `variants` counts the codes that were seen over all sweeps.",
)  # fmt: skip
DRAWS = record(
    {
        "fresh": said(TRUTH, "Whether every sweep compiled and chose anew."),
        "codes": WHOLE,
        "sweeps": listing(
            record({"sweep": WHOLE, **all_of(TEXT, "code configuration blind"),
                    **all_of(ANY_NUMBER, "p50_seconds compile_seconds autotune_seconds")})
        ),
    },
    about="Which code each sweep drew, by the SHA-256 of its kernels, and what it cost.",
)  # fmt: skip
CELL = record(
    {"outcome": OUTCOME, "reason": TEXT},
    {
        **all_of(NUMBER, "p50_seconds between_sweep_spread void_share"),
        **all_of(ANY_NUMBER, "p95_seconds noise_ratio bytes_per_second enqueue_seconds prepare_seconds"),
        "peak_memory_bytes": said(
            maybe(WHOLE), "The most that one call allocates beyond its inputs; null where nobody asked."
        ),
        "sweep_p50_seconds": listing(NUMBER, "In seconds, the median of each sweep."),
        **all_of(WHOLE, "samples sweeps correctness_checks"),
        "scopes": by(SCOPE, ref("scope_times")),
        "unmeasured": by(SCOPE, TEXT, "Why it has no time."),
        **all_of(TRUTH, "launch_bound host_bound"),
        "impossible": by(SCOPE, TEXT, "Why no honest time can be so short."),
        **all_of(ANY_NUMBER, "worst_absolute_error worst_tolerance_share"),
        "edges": by("edge input", TEXT),
        "counters": COUNTERS,
        "traffic": TRAFFIC,
        "compiled": COMPILED,
        "draws": DRAWS,
    },
    about="The times are of the scope device_cold; those of every scope stand under `scopes`.",
)
QUOTIENT = said(NUMBER, "Of the two medians that are shown, where it is not the ratio: that is of paired rounds.")
OTHER_CLOCKS = record(
    {"turned": listing(TEXT, "By which the ratio lies on the other side of the threshold.")},
    {
        "device_dirty": ref("interval"),
        **all_of(record({"ratio": NUMBER}), "dirty_flush do_bench nvbench"),
    },
    about="What other clocks say of a pair that a claim compares in device_cold.",
)
VERDICT = record(
    {"status": STATUS, "mark": TEXT, "reason": TEXT},
    {
        **all_of(ANY_NUMBER, "ratio low high run_low run_high subject_bytes baseline_bytes"),
        "sweep_ratios": listing(NUMBER, "The ratio of each sweep by itself."),
        "quotient_of_medians": QUOTIENT,
    },
    about="From low to high is the interval for any board of the GPU model, from run_low to run_high that of this run "
    "alone.",
)
CLAIM = record(
    {
        "status": STATUS,
        "mark": said(TEXT, "“one draw” where the verdict rests on such evidence."),
        "measure": choice("speedup", "traffic"),
        "threshold": NUMBER,
        "scope": TEXT,
        "expected": listing(STATUS, "Of a test of the lab itself: what a sound instrument may say."),
        "cases": by("case", VERDICT),
        **all_of(WHOLE, "judged compared supported ties"),
    },
    all_of(NUMBER, "smallest_ratio largest_ratio geometric_mean"),
    about="Smallest, largest and mean are of the ratios that were fit to be weighed.",
)
CONTROL = record(
    {
        "profile": TEXT,
        "scopes": by(SCOPE, ref("interval")),
        "spoiled_share": said(NUMBER, "Of the rounds: those left out, as a share of 1."),
        "spoiled_because": listing(TEXT),
    },
    about="One profile against itself under another name: the lab's own error at this case.",
)
WATCHED = record(
    {
        "rounds": WHOLE,
        "power_capped": TRUTH,
        **all_of(ANY_NUMBER, "lowest_spin_hertz lowest_sm_hertz largest_power_watts largest_temperature_celsius "
                 "energy_joules_per_sweep"),
        "blind": listing(TEXT, "Why nothing was told, where nothing was."),
    },
    about="What the GPU went through while a case was timed.",
)  # fmt: skip
PLACE = record(
    {"profile": TEXT, "rank": WHOLE, "times_fastest": NUMBER, **all_of(TRUTH, "level proven")},
    about="`level`: no slower than the fastest, as far as the interval tells; `proven`: slower than the one before.",
)
SPLIT = record(all_of(maybe(ref("interval")), "end_to_end device launch"))
EXPLAINED = record(
    {"fastest": TEXT, **all_of(ANY_NUMBER, "time_ratio bytes_ratio"), "explained": TRUTH, "others": listing(TEXT)}
)
SEARCH = record(
    {
        **all_of(TEXT, "winner scope"),
        "sweeps_fastest": WHOLE,
        "claims": listing(TEXT, "Those of the trials, the fastest first."),
        "trials": by("profile", record(all_of(WHOLE, "sweeps_ahead sweeps"))),
    }
)
LIMITED_GPU = record({"gpu": TEXT, "bytes_per_second": ANY_NUMBER, "cache_bytes": ANY_NUMBER})
REPLICATION = record(
    {
        "publication": TEXT,
        "there": LIMITED_GPU,
        "here": maybe(LIMITED_GPU),
        "measured": by(
            "case",
            record({"outcome": TEXT}, {"rival": TEXT, "over_rival": ref("interval"), "loop_ratio": ANY_NUMBER,
                                       "over_baseline": by(SCOPE, ref("interval"))}),
        ),
        "tables": by(
            "table of the publication",
            by("case", record({**all_of(ANY_NUMBER, "baseline_seconds subject_seconds ratio"),
                               "factors": by("cause", ANY_NUMBER), **all_of(ref("words"), "by_itself reasons")})),
        ),
    },
    about="Cases of a publication, measured again.",
)  # fmt: skip
BODY = record(
    {
        "schema": WHOLE,
        "policy_version": WHOLE,
        **all_of(TEXT, "experiment title question"),
        "evidence": maybe(EVIDENCE),
        "machine": maybe(MACHINE),
        "ceilings": maybe(CEILINGS),
        "limits": maybe(LIMITS),
        "clock_step_seconds": by(SCOPE, NUMBER, "In seconds, the least that the clock tells apart."),
        "counts": by("outcome of a cell; cases, profiles; claims of known verdict, and those that are right", WHOLE),
        "cases": by("case", CASE),
        "places": by("case", by(SCOPE, listing(PLACE, "The fastest first."))),
        "measured": by("case", listing(TEXT), "The profiles that any sweep measured, also where the result is wrong."),
        "cells": by("case", by("profile", CELL)),
        "clocks": by("case", by("claim", OTHER_CLOCKS)),
        "claims": by("claim", CLAIM),
        "controls": by("case", CONTROL),
        "gpu": by("case", WATCHED),
        "splits": by("case", by("claim", SPLIT, "An eager speed-up is its device's part times its launch's.")),
        "explained": by("case", by("profile", EXPLAINED, "Beside the fastest of the case.")),
        "searches": by("case", SEARCH),
        "against": by("case", by("subject", by("baseline", maybe(ref("interval"))))),
    },
    {"replication": REPLICATION},
)
EXPERIMENT = document(
    "experiment",
    "An experiment's results",
    "Everything that an experiment's page shows of one published run, SI units, seven significant digits. Where no "
    "run was published `evidence` and `machine` are null.",
    BODY,
    DEFS,
)
