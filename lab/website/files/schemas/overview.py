"""The schema of data.json beside the front page."""

from lab.verdict.judge import READING_ORDER
from lab.website.files.schemas.words import WHOLE, all_of, document, record

OVERVIEW = document(
    "overview",
    "All verdicts, counted",
    "How many claims on kernels have each verdict; claims that test the lab itself are not among them.",
    record({"claims": WHOLE, "verdicts": record(all_of(WHOLE, " ".join(READING_ORDER)))}),
    {},
)
