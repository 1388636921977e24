"""The schema of compare/<older>-<newer>/data.json: two runs side by side."""

from lab.website.schemas.experiment import STATUS
from lab.website.schemas.words import NUMBER, SHA256, TRUTH, WHOLE, all_of, by, document, record

MOVED = record(
    {**all_of(NUMBER, "ratio low high"), "moved": TRUTH},
    about="How many times as long a call took in the newer run, with its interval.",
)
BODY = record(
    {
        **all_of(SHA256, "older newer"),
        "one_machine": TRUTH,
        "counts": record(all_of(WHOLE, "claims changed cells moved")),
        "experiments": by(
            "experiment",
            record(
                {
                    "times": by("case", by("profile", MOVED), "Empty where the runs are of different machines."),
                    "verdicts": by("claim", record(all_of(STATUS, "older newer"))),
                }
            ),
        ),
    }
)
COMPARISON = document(
    "comparison", "Two runs side by side", "What neither run's own data can say: what moved between them.", BODY, {}
)
