"""The schema of compare/OLDER-NEWER/data.json: two published runs side by side."""

from lab.website.files.schemas.experiment import STATUS
from lab.website.files.schemas.words import NUMBER, SHA256, TRUTH, WHOLE, all_of, by, document, record, said

TIME = record(
    {
        **all_of(NUMBER, "ratio low high"),
        "moved": said(TRUTH, "Whether the whole interval lies beyond the margin of equivalence."),
    },
    about="Time in the newer run over that in the older, of the geometric means of the sweeps' medians, with Welch's "
    "interval over sweeps; above 1 the newer took longer.",
)
VERDICTS = record(all_of(STATUS, "older newer"), about="Verdicts of both runs, judged by the rules of today.")
BODY = record(
    {
        **all_of(SHA256, "older newer"),
        "one_machine": said(TRUTH, "Whether both runs measured the same card: only then are times divided."),
        "counts": record(
            all_of(WHOLE, "claims changed cells moved"), about="How many came out otherwise, and of how many."
        ),
        "experiments": by(
            "experiment",
            record(
                {
                    "times": by("case", by("profile", TIME), "Empty where they had different cards."),
                    "verdicts": by("claim", VERDICTS),
                }
            ),
            "Those that both runs have.",
        ),
    }
)
COMPARISON = document(
    "comparison",
    "Two runs side by side",
    "What neither run's own data can say. Times and verdicts of each run stand under runs/, by its digest.",
    BODY,
    {},
)
