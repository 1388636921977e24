"""The schema of manifest.json."""

from lab.website.files.schemas.words import SHA256, WHOLE, by, document, record

MANIFEST = document(
    "manifest",
    "Every file of the site",
    "What each file of the site must be, but this one.",
    record({"schema": WHOLE, "files": by("path from the site's root", record({"bytes": WHOLE, "sha256": SHA256}))}),
    {},
)
