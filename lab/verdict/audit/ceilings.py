"""Rules that hold one row against its GPU: memory bandwidth, dense matrix rate, cache."""

from collections.abc import Iterator

from lab.definition.publication import Limits, Publication, Row, Table
from lab.verdict.audit.finding import CEILING, SPARSE, Amount, Finding, Rule, Words
from lab.verdict.roofline import PHYSICS_MARGIN
from lab.verdict.statistics import per_cent

OVERCOUNTED = 1.10  # modelled bytes over least bytes: above, the model counts what need not be moved
ROUNDING = 1.005  # printed figures have three digits or more
IMPLAUSIBLE_SHARE = 0.05  # of the dense rate, for work that is bound by it
SPARSE_EXCESS = 1.10  # implied peak over the dense rate


def shortest_seconds(row: Row, table: Table) -> float:
    """The least time that the GPU needs for the row's work; 0 where nothing is known.

    At the end of a call the cache may keep as many bytes of outputs as it holds, and at its start, unless it was
    emptied, as many of inputs.
    """
    if row.work is None:
        return 0.0
    cache = table.limits.l2_bytes
    read = max(0.0, row.work.read_bytes - (0.0 if table.cold else cache))
    moved = read + max(0.0, row.work.written_bytes - cache)
    return max(moved / table.limits.bytes_per_second, _matrix_seconds(row, table.limits))


def rows_of(publication: Publication) -> Iterator[tuple[Table, Row]]:
    return ((table, row) for table in publication.tables for row in table.rows)


def _matrix_seconds(row: Row, limits: Limits) -> float:
    rate = limits.flops_per_second.get(row.matrix)
    return row.work.flops / rate if row.work and rate else 0.0


def faster_than_physics(publication: Publication) -> Iterator[Finding]:
    for table, row in rows_of(publication):
        least = shortest_seconds(row, table)
        if row.work and row.seconds is not None and row.seconds < PHYSICS_MARGIN * least:
            yield Finding(
                table=table.title, row=row.label,
                printed=Amount(row.seconds, "seconds"), allowed=Amount(least, "seconds"),
                words=(
                    "To move ", Amount(row.work.total_bytes, "bytes"), " and compute ",
                    Amount(row.work.flops, "flops"), f" takes the {table.limits.gpu} at least ",
                    Amount(least, "seconds"), ", even where its cache of ", Amount(table.limits.l2_bytes, "bytes"),
                    " keeps all that it can from the call before and for the call after.",
                ),
            )  # fmt: skip


def above_memory_peak(publication: Publication) -> Iterator[Finding]:
    for table, row in rows_of(publication):
        peak = table.limits.bytes_per_second
        if row.bytes_per_second is None or row.bytes_per_second <= ROUNDING * peak:
            continue
        if row.working_set_bytes is not None:
            continue
        yield Finding(
            table=table.title, row=row.label,
            printed=Amount(row.bytes_per_second, "bytes_per_second"), allowed=Amount(peak, "bytes_per_second"),
            words=(f"The memory of the {table.limits.gpu} delivers at most ", Amount(peak, "bytes_per_second"), ". ",
                   *_explained(row, table)),
        )  # fmt: skip


def _explained(row: Row, table: Table) -> Words:
    """Where a rate above the memory's comes from, as far as the figures tell."""
    if row.work is None or row.seconds is None or row.modelled_bytes is None:
        return ()
    least = row.work.total_bytes
    if row.modelled_bytes > OVERCOUNTED * least:
        return (
            "The rate counts ", Amount(row.modelled_bytes, "bytes"), " a call, of which the operator needs ",
            Amount(least, "bytes"), ": that is ", Amount(least / row.seconds, "bytes_per_second"), ".",
        )  # fmt: skip
    relation = "fits into" if least <= table.limits.l2_bytes else "is more than"
    return (
        "The working set of ", Amount(least, "bytes"), f" {relation} the cache of ",
        Amount(table.limits.l2_bytes, "bytes"), ", which was not emptied between calls: part of the rate is the "
        "cache's.",
    )  # fmt: skip


def cache_resident(publication: Publication) -> Iterator[Finding]:
    for table, row in rows_of(publication):
        if row.bytes_per_second is None or row.work is None or table.cold or row.working_set_bytes is not None:
            continue
        # Several kernels hand one another more than the operator's own bytes.
        if row.launches == 1 and row.work.total_bytes <= table.limits.l2_bytes:
            yield Finding(
                table=table.title, row=row.label,
                printed=Amount(row.bytes_per_second, "bytes_per_second"), allowed=None,
                words=(
                    "All ", Amount(row.work.total_bytes, "bytes"), " of its working set fit into the cache of ",
                    Amount(table.limits.l2_bytes, "bytes"), ", which was not emptied between calls.",
                ),
            )  # fmt: skip


def above_dense_rate(publication: Publication) -> Iterator[Finding]:
    for table, row in rows_of(publication):
        rate = table.limits.flops_per_second.get(row.matrix)
        if rate and row.flops_per_second is not None and row.flops_per_second > ROUNDING * rate:
            yield Finding(
                table=table.title, row=row.label,
                printed=Amount(row.flops_per_second, "flops_per_second"), allowed=Amount(rate, "flops_per_second"),
                words=(f"Dense {row.matrix} products reach at most ", Amount(rate, "flops_per_second"),
                       f" on the {table.limits.gpu}."),
            )  # fmt: skip


def implausibly_slow(publication: Publication) -> Iterator[Finding]:
    for table, row in rows_of(publication):
        rate = table.limits.flops_per_second.get(row.matrix)
        if row.work is None or row.seconds is None or not rate:
            continue
        reached = row.work.flops / row.seconds
        bound = _matrix_seconds(row, table.limits) > row.work.total_bytes / table.limits.bytes_per_second
        if bound and reached < IMPLAUSIBLE_SHARE * rate:
            yield Finding(
                table=table.title, row=row.label,
                printed=Amount(row.seconds, "seconds"), allowed=Amount(row.work.flops / rate, "seconds"),
                words=(
                    Amount(row.work.flops, "flops"), " in this time are ",
                    Amount(reached, "flops_per_second"), ", ", Amount(reached / rate, "share"), " of the ",
                    Amount(rate, "flops_per_second"), f" that the {table.limits.gpu} reaches: the time covers "
                    "more than the kernel, or is not of this GPU and shape.",
                ),
            )  # fmt: skip


def sparse_peak(publication: Publication) -> Iterator[Finding]:
    for table, row in rows_of(publication):
        rate = table.limits.flops_per_second.get(row.matrix)
        if not rate or not row.matrix_share or row.flops_per_second is None:
            continue
        implied = row.flops_per_second / row.matrix_share
        if implied > SPARSE_EXCESS * rate:
            yield Finding(
                table=table.title, row=row.label,
                printed=Amount(row.matrix_share, "share"), allowed=Amount(row.flops_per_second / rate, "share"),
                words=(
                    Amount(row.flops_per_second, "flops_per_second"), " are that share of ",
                    Amount(implied, "flops_per_second"), f"; dense {row.matrix} products reach ",
                    Amount(rate, "flops_per_second"), f" on the {table.limits.gpu}.",
                ),
            )  # fmt: skip


RULES = (
    Rule(
        name="faster-than-physics", principle=CEILING, find=faster_than_physics,
        statement=(
            f"A time is below {PHYSICS_MARGIN} of what the memory and the dense matrix rate allow for the least bytes "
            "and FLOPs, after the cache has kept all that it can."
        ),
    ),
    Rule(
        name="above-memory-peak", principle=CEILING, find=above_memory_peak,
        statement=(
            "A bandwidth is above the memory's peak, and no working set is shown beside it of which the cache has "
            "served a part."
        ),
    ),
    Rule(
        name="cache-resident", principle=CEILING, find=cache_resident,
        statement=(
            "A bandwidth is printed for one kernel whose working set the cache can hold, which was not emptied between "
            "calls, and the working set is not shown."
        ),
    ),
    Rule(
        name="above-dense-rate", principle=CEILING, find=above_dense_rate,
        statement="A rate of matrix products is above the GPU's dense rate.",
    ),
    Rule(
        name="implausibly-slow", principle=CEILING, find=implausibly_slow, binding=False,
        statement=(
            f"Work that is bound by the matrix rate reaches less than {per_cent(IMPLAUSIBLE_SHARE)} of the dense rate."
        ),
    ),
    Rule(
        name="sparse-peak", principle=SPARSE, find=sparse_peak,
        statement=f"Rate over printed share is a peak more than {SPARSE_EXCESS} times the dense one.",
    ),
)  # fmt: skip
