"""What stands above the tables of the front page's grid: how often each family is level, and notes on clocks."""

from typing import Any

from lab.website.data.overview import overview
from lab.website.figure import DataView, Figure, Sentence
from lab.website.pages.grid import _calls_only, _leader_in_other_modes, _notes, _tally, _words


def words_of(sentence: Sentence) -> str:
    return "".join(part.text if isinstance(part, Figure) else part for part in sentence)


def row_of(digest: str = "new", best: str = "compile", seconds: float = 5e-6, **calls: str) -> dict[str, Any]:
    cells = {family.replace("_", "-"): {"call": call, "p50_seconds": seconds} for family, call in calls.items()}
    return {"digest": digest, "best": best, "cells": cells or {best: {"call": "best", "p50_seconds": seconds}}}


def tallied(**modes: list[dict[str, Any]]) -> DataView:
    """Of one GPU, by call mode."""
    data = {mode: dict(enumerate(rows)) for mode, rows in modes.items()}
    return DataView(overview([], {"H100": data}, ())).at("tallies", "H100")  # type: ignore[dict-item]


def test_a_grid_tells_who_is_best_or_tied_how_often() -> None:
    both = [row_of(compile="best", liger=liger, eager="slower") for liger in ("tie", "unproven")]
    told = _tally(tallied(graph=both).at("graph"))
    assert words_of(told) == "torch.compile 2 of 2; Liger 1, perhaps 2, of 2; PyTorch, several calls 0 of 2"
    assert [part.source for part in told if isinstance(part, Figure)][2:5] == [
        f"/tallies/H100/graph/liger/{name}" for name in ("level", "perhaps", "timed")
    ]
    unsure = [row_of(compile=compile, liger="tie") for compile in ("best", "best?")]
    assert words_of(_tally(tallied(graph=unsure).at("graph"))) == "Liger 2 of 2; torch.compile 1, perhaps 2, of 2"
    doubt = [row_of(compile="best?", liger="unproven")]
    assert (
        words_of(_tally(tallied(eager=doubt).at("eager")))
        == "torch.compile 0, perhaps 1, of 1; Liger 0, perhaps 1, of 1"
    )


def test_a_grid_tells_where_its_leader_had_no_rival_but_calls_of_pytorch() -> None:
    alone = row_of(lab_triton="best", lab_cuda="slower", fused="slower", eager="slower")
    rows = [alone, row_of(lab_triton="tie", compile="best"), row_of(lab_triton="slower", fused="best")]
    told = _calls_only(tallied(graph=rows).at("graph"))
    assert words_of(told) == "At 1 of the 2 of lab (Triton) no other rival was timed than PyTorch's own calls."
    assert _calls_only(tallied(graph=rows[1:2]).at("graph")) == ()


def test_the_table_of_one_call_mode_tells_how_its_leader_does_in_the_others() -> None:
    won, lost = [row_of(lab_triton="best", compile="slower")], [row_of(lab_triton="unproven", compile="best?")]
    modes = tallied(device_cold=won, graph=won, eager=lost)
    assert words_of(_leader_in_other_modes(modes, "device_cold")) == (
        "lab (Triton) in a CUDA graph 1 of 1; called eagerly 0, perhaps 1, of 1."
    )
    modes = tallied(device_cold=won, eager=[row_of(lab_triton="slower", compile="best")])
    assert words_of(_leader_in_other_modes(modes, "eager")) == "torch.compile with a cold cache 0 of 1."
    assert _leader_in_other_modes(tallied(device_cold=won), "device_cold") == ()


def test_attention_is_found_by_what_readers_also_call_it() -> None:
    assert _words("attention-causal") == "attention-causal flash"
    assert _words("decode-attention") == "decode-attention flash kv cache"
    assert _words("rmsnorm-linear-decode") == "rmsnorm-linear-decode"


def test_cold_times_come_with_what_their_clock_does_to_them() -> None:
    rows = [row_of(digest, seconds=seconds) for digest, seconds in (("old", 5e-6), ("old", 50e-6), ("new", 5e-6))]
    shapes = {"H100": {"device_cold": {str(number): row for number, row in enumerate(rows)}}}
    trust = {"agreement": {"claims": 792, "claims_turned": 75}}
    of_host = DataView(overview([], shapes, {"old"})).at("host_went_on", "H100")
    longer, cold = _notes(of_host, trust)
    assert words_of(longer) == (
        "The times of 2 of 3 shapes were taken while the host went on enqueuing, so that each call reads about half a "
        "microsecond longer, a clear part of the time at 1."
    )
    assert [part.source for part in longer if isinstance(part, Figure)] == [
        f"/host_went_on/H100/{name}" for name in ("taken", "shapes", "lengthened")
    ]
    counts = [each for each in cold if isinstance(each, Figure)]
    assert [each.source for each in counts] == [
        "site:trust/data.json#/agreement/claims_turned", "site:trust/data.json#/agreement/claims",
    ]  # fmt: skip
    assert _notes(DataView(overview([], shapes, {"older"})).at("host_went_on", "H100"), {}) == []
