"""The answer of a case's page: who was fastest there, by how much, and how surely."""

import math

from lab.definition.experiment import GRAPH
from lab.definition.plan import PlannedCase
from lab.verdict.cells import SCOPE
from lab.verdict.judge import WIDEST_HALF_WIDTH, is_tie
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.data.standing_words import standing_word_of, word_of_fastest
from lab.website.figure import DataView, Sentence, joined
from lab.website.pages.labels import begun, listed, profile_title, scope_words, within_sentence


def case_answer(item: Judged, case: PlannedCase, view: DataView) -> Sentence:
    """Who was fastest here, by how much, and how surely; then the same of a CUDA graph."""
    places = item.places(case.name, SCOPE) if case.included else {}
    if not places:
        return ("Not measured in the run that the experiment's page shows.",)
    names = {profile.name: within_sentence(profile.title) for profile in item.plan.profiles}
    first, *rest = places
    fastest, each_call = begun(profile_title(item, first)), f" a call {scope_words(SCOPE, item.on_cpu).told}"
    p50 = view.figure("cells", case.name, first, "p50_seconds", show=format.brief_time) or ""
    level = [name for name in rest if places[name].level]
    tied = [names[name] for name in level if _is_tied(case, first, name, view)]
    at_edge = [name for name in level if _is_precise(case, first, name, view) and names[name] not in tied]
    noisy = [names[name] for name in level if names[name] not in tied and name not in at_edge]
    behind = next((name for name in rest if not places[name].level), None)
    who: Sentence = (f"{fastest} was the fastest, with ", p50, each_call)
    if not rest:
        who = (f"{fastest}, the only implementation that was measured, took ", p50, each_call)
    elif not places[first].proven:
        who = (f"{fastest} had the shortest p50, ", p50, each_call, ", by too few sweeps to say that it is faster")
    elif tied:
        who = (f"{fastest} shared the first place with {listed(tied)}, at ", p50, each_call)
    elif noisy or at_edge:
        who = (f"{fastest} had the shortest p50, ", p50, each_call)
    if places[first].proven and (noisy or at_edge):
        doubts: list[Sentence] = [_at_edge(case, first, name, names[name], view) for name in at_edge]
        doubts += [(f"too noisy to tell from {listed(noisy)}",)] if noisy else []
        who = (*who, " (", *joined(doubts, "; "), ")")
    graph = _in_graph(item, case, view)
    path = ("against", case.name, first, behind) if behind else ()
    ratio, interval = view.ratio(*path, brief=True), view.interval(*path, brief=True)
    if behind and ratio and interval:
        which = "the next" if behind == rest[0] else "the next that is clearly slower"
        lead: Sentence = (*who, ": ", ratio, " ", interval, f" as fast as {names[behind]}, {which}")
        medians = view.figure(*path, "quotient_of_medians", show=format.times)
        return (*lead, *((" (", medians, " by the two medians).") if medians else (".",)), *graph)
    return (*who, ".", *graph)


def _is_tied(case: PlannedCase, first: str, name: str, view: DataView) -> bool:
    speedup = view.value("against", case.name, first, name)
    return bool(speedup) and is_tie(speedup["low"], speedup["high"])


def _is_precise(case: PlannedCase, first: str, name: str, view: DataView) -> bool:
    """Whether the interval is as narrow as a verdict without a mark asks for."""
    speedup = view.value("against", case.name, first, name)
    return bool(speedup) and math.sqrt(speedup["high"] / speedup["low"]) - 1 <= WIDEST_HALF_WIDTH


def _at_edge(case: PlannedCase, first: str, name: str, title: str, view: DataView) -> Sentence:
    """Of a precise interval that is neither a tie nor clear of one: it holds the edge of a tie. Noise is no reason."""
    path = ("against", case.name, first, name)
    return (view.ratio(*path) or "–", " ", view.interval(*path) or "–", f" as fast as {title}, at the edge of a tie")


def _in_graph(item: Judged, case: PlannedCase, view: DataView) -> Sentence:
    """Who is fastest in a CUDA graph, as the front page has it; nothing where none compete there."""
    places = item.data["contest"].get(case.name, {}).get(GRAPH, ())
    if len(places) < 2:
        return ()
    first, *rest = places
    words_of = {each["profile"]: standing_word_of(each) for each in rest}
    tied = [profile_title(item, name) for name, word in words_of.items() if word == "tie"]
    had = "had the shortest p50" if word_of_fastest(words_of.values()) == "best?" else "was fastest"
    p50 = view.figure("cells", case.name, first["profile"], "scopes", GRAPH, "p50_seconds", show=format.brief_time)
    level = f", in a tie with {listed(tied)}" if tied else ""
    return (f" In a CUDA graph {profile_title(item, first['profile'])} {had}, at ", p50 or "–", f"{level}.")
