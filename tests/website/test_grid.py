"""What stands above the tables of the front page's grid: how often each family is level, and notes on clocks."""

from typing import Any

from lab.website.data.overview import overview
from lab.website.figure import DataView, Figure
from lab.website.pages.grid import _few, _made, _notes, _words
from lab.website.pages.grid_standings import calls_only, leader_in_other_modes, standings, summary
from lab.website.table import Words, plain


def words_of(sentence: Words) -> str:
    return plain(sentence)


def row_of(digest: str = "new", best: str = "compile", seconds: float = 5e-6, **calls: str) -> dict[str, Any]:
    cells = {family.replace("_", "-"): {"call": call, "p50_seconds": seconds} for family, call in calls.items()}
    return {"digest": digest, "best": best, "cells": cells or {best: {"call": "best", "p50_seconds": seconds}}}


def tallied(**modes: list[dict[str, Any]]) -> DataView:
    """Of one GPU, by call mode."""
    data = {mode: dict(enumerate(rows)) for mode, rows in modes.items()}
    return DataView(overview([], {"H100": data}, ())).at("tallies", "H100")  # type: ignore[dict-item]


def test_a_grid_tells_who_is_fastest_or_tied_most_often() -> None:
    both = [row_of(compile="best", liger=liger, eager="slower") for liger in ("tie", "unproven")]
    told = summary(tallied(graph=both).at("graph"), "graph")
    assert words_of(told) == "Fastest or tied: torch.compile at 2 of 2 shapes."
    unsure = [row_of(compile=compile, liger="slower") for compile in ("best", "best?")]
    told = summary(tallied(graph=unsure).at("graph"), "graph")
    assert words_of(told) == "Fastest or tied: torch.compile at 1 of 2 shapes, up to 2 if the unclear ones count."
    assert [part.source for part in told if isinstance(part, Figure)] == [
        f"/tallies/H100/graph/compile/{name}" for name in ("level", "timed", "perhaps")
    ]


def timed(**seconds: float) -> dict[str, Any]:
    """A row with these times."""
    cells = {name.replace("_", "-"): {"call": "slower", "p50_seconds": each} for name, each in seconds.items()}
    return {"digest": "new", "best": "compile", "cells": cells}


def test_a_grid_tells_how_much_longer_torch_compile_takes_than_the_labs_fastest_kernel() -> None:
    rows = [
        timed(lab_triton=1e-6, lab_cuda=2e-6, compile=1.5e-6), timed(lab_triton=4e-6, lab_cuda=2e-6, compile=2e-6),
        timed(lab_triton=1e-6, compile=1.2e-6, fused=3e-6), timed(compile=1e-6, fused=9e-6),
    ]  # fmt: skip
    tallies = tallied(device_cold=rows).at("device_cold")
    assert words_of(summary(tallies, "device_cold")).partition(" shapes. ")[2] == (
        "Time over that of the lab's fastest kernel with a cold cache, median and range: torch.compile 1.20× (1.00× to "
        "1.50×, 3 shapes); one call of PyTorch 3.00× (3.00×, 1 shape)."
    )
    assert tallies.value("compile", "over_lab") == {"shapes": 3, "median": 1.2, "least": 1.0, "most": 1.5}
    assert "over_lab" not in tallies.value("lab-triton")


def test_every_family_has_a_row_those_first_that_are_fastest_at_the_largest_share() -> None:
    rows = [row_of(lab_triton="best", quack="slower", compile="slower"), row_of(lab_triton="slower", quack="best")]
    rows += [row_of(lab_triton="best", compile="unproven", fa4="slower")]
    table = standings(tallied(graph=rows).at("graph"), "")
    assert table is not None
    assert [[plain(cell) for cell in each.cells[:5]] for each in table.rows] == [
        ["lab (Triton)", "3", "2", "67", "2"], ["QuACK", "2", "1", "50", "1"], ["torch.compile", "2", "0", "0", "1"],
        ["FA4", "1", "0", "0", "0"],
    ]  # fmt: skip
    assert table.heads[-1].key == "over_lab"
    strangers = tallied(graph=[timed(liger=1e-6, compile=2e-6)]).at("graph")
    without = standings(strangers, "")
    assert without is not None
    assert without.heads[-1].key == "perhaps"


def test_a_winner_beside_calls_of_pytorch_alone_is_marked() -> None:
    calls = row_of("", "lab-triton", lab_triton="best", fused="slower")
    assert _few(calls) == "only rival: PyTorch's calls"
    assert _few(row_of("", "lab-triton", lab_triton="best", cudnn="slower")) == ""
    assert _few(row_of("", "fused", fused="best", eager="slower")) == "", "the winner is one of them"
    assert _few(row_of("", "lab-triton", lab_triton="best", lab_cuda="slower")) == "", "there is no rival"


def test_a_grid_tells_where_its_leader_had_no_rival_but_calls_of_pytorch() -> None:
    alone = row_of(lab_triton="best", lab_cuda="slower", fused="slower", eager="slower")
    rows = [alone, row_of(lab_triton="tie", compile="best"), row_of(lab_triton="slower", fused="best")]
    told = calls_only(tallied(graph=rows).at("graph"))
    assert words_of(told) == "At 1 of the 2 of lab (Triton) no other rival was timed than PyTorch's own calls."
    assert calls_only(tallied(graph=rows[1:2]).at("graph")) == ()


def test_the_table_of_one_call_mode_tells_how_its_leader_does_in_the_others() -> None:
    won, lost = [row_of(lab_triton="best", compile="slower")], [row_of(lab_triton="unproven", compile="best?")]
    modes = tallied(device_cold=won, graph=won, eager=lost)
    assert words_of(leader_in_other_modes(modes, "device_cold")) == (
        "lab (Triton) in a CUDA graph 1 of 1 shape; called eagerly 0 of 1 shape, up to 1 if the unclear ones count."
    )
    modes = tallied(device_cold=won, eager=[row_of(lab_triton="slower", compile="best")])
    assert words_of(leader_in_other_modes(modes, "eager")) == "torch.compile with a cold cache 0 of 1 shape."
    assert leader_in_other_modes(tallied(device_cold=won), "device_cold") == ()


def test_a_winner_that_is_given_what_was_made_beforehand_is_marked() -> None:
    cells = {"lab-triton": {"profile": "triton-folded"}, "eager": {"profile": "torch-eager"}}
    row = {"experiment": "rmsnorm-linear", "op": "rmsnorm-linear", "best": "lab-triton", "cells": cells}
    assert _made(row) == "best: folded made beforehand"
    assert _made(row | {"best": "eager"}) == "", "it is given the weights as they are"


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
