"""The schema of trust/data.json: how far the lab itself can be trusted."""

from lab.website.files.schemas.words import (
    NUMBER,
    TEXT,
    TRUTH,
    WHOLE,
    all_of,
    by,
    document,
    listing,
    maybe,
    record,
    ref,
    said,
)  # fmt: skip

SOME = maybe(NUMBER)
REPEAT = record(
    {
        **all_of(TEXT, "experiment gpu largest_at"),
        **all_of(WHOLE, "gpus runs sources cells within comparisons disjoint_count changed_count flip_count"),
        "largest_deviation": SOME,
        **all_of(listing(TEXT), "disjoint changed flips"),
    },
    about="An experiment that was measured again on a GPU of the same name.",
)
PAIRS = record(
    {
        "gpu": TEXT,
        "one_draw": said(TRUTH, "Whether a side rests on one choice of an autotuner."),
        **all_of(WHOLE, "boards runs pairs flipped"),
        **all_of(NUMBER, "holding_share zero_share changed_share"),
    },
    about="Pairs of runs of one source: intervals that hold the other estimate, differences that hold zero, verdicts.",
)
POOLED = record(
    {**all_of(NUMBER, "ratio low high"), **all_of(WHOLE, "boards run_count"), "runs": listing(TEXT)},
    about="Three and more runs of unchanged code taken together, with the run as the unit.",
)
INSTRUMENT = record(
    {
        **all_of(SOME, "p50_seconds dirty_flush_seconds do_bench_seconds nvbench_seconds"),
        **all_of(TRUTH, "do_bench_agrees do_bench_agrees_cold nvbench_agrees nvbench_agrees_cold"),
    }
)
CLOCK = record(
    {
        **all_of(SOME, "clock_step_seconds empty_seconds launch_floor_seconds largest_off"),
        **all_of(WHOLE, "canaries off"),
    }
)
COST = record(
    {
        **all_of(SOME, "wall_seconds profiling_seconds timing_seconds_per_cell_and_sweep "
                 "gpu_seconds_per_cell_and_sweep"),
        **all_of(WHOLE, "sweeps cells"),
        "stage_seconds": by("stage", NUMBER, "In seconds, over all sweeps."),
    }
)  # fmt: skip
BODY = record(
    {
        **all_of(WHOLE, "schema policy_version sessions"),
        **all_of(ref("counts"), "same controls"),
        "same_by_case": by("case", ref("counts")),
        "power": by(
            "claim",
            record(
                {
                    "known_ratio": NUMBER,
                    "right": said(maybe(WHOLE), "Null where any verdict would be right."),
                    **all_of(WHOLE, "trials withheld excluding_one covering"),
                }
            ),
            "Effects of known size, and how often the rule saw them.",
        ),
        "repeatability": by("number", PAIRS),
        "pooled": by("experiment", by("gpu", by("claim", by("case", POOLED)))),
        "repeats": by("number", REPEAT),
        "repeated": record(all_of(WHOLE, "flip_count comparisons"), about="Of all repeats together."),
        "instruments": by("case and profile", INSTRUMENT),
        "agreement": record(
            all_of(WHOLE, "cells claims claims_turned cold_above_dirty do_bench_agrees do_bench_agrees_cold "
                   "nvbench_agrees nvbench_agrees_cold")
        ),
        "flush": by(
            "run", record({"footprint_bytes": WHOLE, **all_of(SOME, "flushed_read_bytes warm_read_bytes")})
        ),
        "clock": by("run", CLOCK),
        "cost": by("run", COST),
    }
)  # fmt: skip
COUNTS = record(
    {
        **all_of(WHOLE, "comparisons supported excluding_one"),
        "largest_supported_rate": said(SOME, "With 95 % confidence no more are supported, as a share of 1."),
    },
    about="Of the same code under two names: how often it won.",
)
TRUST = document(
    "trust", "How far to trust the lab", "Error rates and cost of the lab itself, SI units.", BODY, {"counts": COUNTS}
)
