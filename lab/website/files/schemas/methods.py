"""The schema of methods/data.json: what the guard asks, and what it finds here and elsewhere."""

from lab.website.files.schemas.words import NUMBER, TEXT, WHOLE, all_of, by, document, listing, maybe, record, ref

SOME = maybe(NUMBER)
FINDING = record(
    {
        **all_of(TEXT, "table row"),
        **all_of(maybe(ref("amount")), "printed allowed"),
        "words": by("number", ref("amount"), "The amounts of its sentence, in their order."),
        "text": listing(maybe(TEXT), "Its sentence, in parts; null is the next of its amounts."),
    }
)
PUBLICATION = record(
    {
        "source": TEXT,
        **all_of(WHOLE, "rows statements sound_rows findings rules_broken"),
        "rules": by("rule", record({"count": WHOLE, "findings": by("number", FINDING)})),
    }
)
SAME_KERNEL = record(
    {"gpu": TEXT, "shape": TEXT},
    all_of(SOME, "least_bytes read_bytes written_bytes l2_bytes seconds dram_share occupancy_share "
           "occupancy_limit_share registers_per_thread launch_floor_seconds sm_hertz"),
    about="One operator as one profiler saw it.",
)  # fmt: skip
BODY = record(
    {
        "rules": by("rule", WHOLE, "How often it fired."),
        **all_of(WHOLE, "rule_count publication_count rows findings"),
        "own": record(all_of(WHOLE, "pages tables rows statements findings")),
        "own_pages": by("experiment", PUBLICATION),
        "publications": by("publication", PUBLICATION),
        "same_kernel": record({}, all_of(SAME_KERNEL, "theirs same beyond")),
    }
)
AMOUNT = record({"value": NUMBER, "unit": TEXT}, about="SI; the unit stands beside it.")
METHODS = document(
    "methods", "What the guard refuses", "What the guard asks of published figures, and what it finds.", BODY,
    {"amount": AMOUNT},
)  # fmt: skip
