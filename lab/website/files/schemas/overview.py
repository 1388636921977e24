"""The schema of data.json beside the front page."""

from lab.verdict.judge import READING_ORDER
from lab.website.files.schemas.words import WHOLE, all_of, by, document, record

OVERVIEW = document(
    "overview",
    "All verdicts, counted",
    "How many claims on kernels have each verdict; claims that test the lab itself are not among them.",
    record(
        {
            **all_of(WHOLE, "claims ties"),
            "by_rival": by("kind of rival", by("outcome", WHOLE)),
            "verdicts": record(all_of(WHOLE, " ".join(READING_ORDER))),
        }
    ),
    {},
)
