"""The short form of an experiment: what follows by itself, and which mistakes are told at once."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import lab
from lab.check import check
from lab.definition.mistakes import mistakes
from lab.definition.planning import planned
from lab.definition.prose import missing_prose
from lab.definition.short import Draft
from lab.errors import DefinitionError
from lab.starter import __file__ as starter

OWN_LINE = re.compile(r"^line \d+: ")  # of a profile or claim, in the file of the experiment
EXAMPLE = Path(starter).with_name("gelu.py")


def twice(x: torch.Tensor) -> torch.Tensor:
    """One multiplication."""
    return x * 2


def draft(**changes: object) -> Draft:
    facts: dict[str, object] = {"shapes": [(4, 8), (8, 16)], "reference": lambda x: 2 * x.double()}
    return lab.experiment("doubling", **(facts | changes))  # type: ignore[arg-type]


def sound(**changes: object) -> Draft:
    made = draft(**changes)
    made.profile("plain", lambda x: x + x, baseline=True)
    made.profile("twice", twice)
    made.claim("twice", by=1.5)
    return made


def refused(made: Draft) -> list[str]:
    with pytest.raises(DefinitionError) as refusal:
        made.definition()
    first, *lines = str(refusal.value).splitlines()
    assert first.startswith(__file__)
    return [OWN_LINE.sub("", line.strip()) for line in lines]


def test_an_experiment_follows_from_functions_shapes_and_a_claim() -> None:
    made = sound(dtypes=["fp16", "float32"]).definition()
    assert [case.name for case in made.cases] == [
        "doubling-4x8-float16", "doubling-4x8-float32", "doubling-8x16-float16", "doubling-8x16-float32",
    ]  # fmt: skip
    (claim,) = made.claims
    assert (claim.name, claim.threshold, claim.cases) == ("twice-beats-plain", 1.5, made.cases)
    assert made.profiles[1].implementations["doubling"]() is twice
    assert made.profiles[1].technique == "One multiplication."
    assert list(mistakes(made)) == []


def test_traffic_follows_from_the_tensors_unless_it_is_given() -> None:
    def of(made: Draft, itemsize: int) -> tuple[int, int]:
        traffic = made.definition().cases[0].operator.traffic((4, 8), itemsize)
        return traffic.read_bytes, traffic.written_bytes

    assert of(sound(), 4) == (128, 128)
    assert of(sound(), 2) == (64, 64)
    assert of(sound(reads=3, writes=0.5), 4) == (384, 64)
    two = draft(reference=lambda a, b: (a.double() + b.double()).sum(-1))
    two.profile("plain", lambda a, b: (a + b).sum(-1), baseline=True)
    two.profile("other", lambda a, b: a.sum(-1) + b.sum(-1))
    two.claim("other")
    assert of(two, 4) == (256, 16)

    def seeded(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[torch.Tensor, ...]:
        return (torch.randn(shape, dtype=dtype, generator=torch.Generator(device).manual_seed(seed)),)

    assert of(sound(inputs=seeded), 4) == (128, 128)


def test_inputs_of_one_seed_are_the_same() -> None:
    inputs = sound().definition().cases[0].operator.inputs
    first, again, other = (inputs((4, 8), torch.float32, "cpu", seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_loader_that_compiles_is_known_to_recompile() -> None:
    made = sound()
    made.profile("compiled", load=lambda: torch.compile(twice))
    made.profile("loaded", load=lambda: twice)
    assert [profile.recompiles for profile in made.definition().profiles] == [False, False, True, False]


def test_a_decorated_function_is_a_profile_and_stays_a_function() -> None:
    made = draft()

    @made.profile
    def by_hand(x: torch.Tensor) -> torch.Tensor:
        return x + x

    made.profile("twice", twice)
    made.claim("twice", faster_than="by-hand")
    assert [profile.name for profile in made.definition().profiles] == ["by-hand", "twice"]
    assert by_hand(torch.ones(1)) == 2


def test_all_mistakes_are_reported_at_once_with_what_is_accepted() -> None:
    made = draft(shapes=[(4, "x")], dtypes=["fp33"], questoin="why?")
    made.profile("a", twice, hypotesis="x")
    made.profile("a", twice)
    made.profile("b")(twice)
    made.profile("c", twice, load=lambda: twice)
    made.claim("d", faster_than="a")
    made.claim("a")
    messages = refused(made)
    assert [line.split(":")[0].split(";")[0] for line in messages] == [
        "unknown field 'questoin'", "profile 'a'", "profile 'a'", "profile 'c'", "shapes", "dtypes", "claim('d')",
        "claim('a')",
    ]  # fmt: skip
    assert "did you mean 'question'?" in messages[0]
    assert "did you mean 'hypothesis'?" in messages[1]
    assert "accepted are ['a', 'b']" in messages[6]
    assert "no profile is the baseline" in messages[7]


def test_a_mistake_names_the_line_of_its_own_profile_or_claim(tmp_path: Path) -> None:
    file, other = tmp_path / "mine.py", tmp_path / "other.py"
    file.write_text(
        "import lab\n"
        "exp = lab.experiment('doubling', shapes=[(4, 8)], reference=lambda x: 2 * x.double())\n"
        "@exp.profile(basline=True)\n"
        "def plain(x): return x + x\n"
        "@exp.profile\n"
        "def twice(x): return x * 2\n"
        "exp.profile('twice', twice)\n"
        "exp.claim('twice', by=0,\n"
        "          faster_than='plain')\n"
    )
    other.write_text("exp.claim('twice', faster_tan='plain')\n")
    names: dict[str, Any] = {}
    for each in (file, other):
        exec(compile(each.read_text(), str(each), "exec"), names)
    with pytest.raises(DefinitionError) as refusal:
        names["exp"].definition()
    first, *lines = str(refusal.value).splitlines()
    assert first == f"{file}, line 2: experiment 'doubling'"
    assert [line.split("; accepted")[0].strip() for line in lines] == [
        "line 3: profile 'plain': unknown field 'basline'",
        "line 7: profile 'twice': is defined twice",
        f"{other}, line 1: claim('twice'): unknown field 'faster_tan'",
        "line 8: claim('twice'): by is 0",
        f"{other}, line 1: claim('twice'): faster_than is not given, and no profile is the baseline",
    ]


def test_of_a_mistake_through_the_labs_own_code_the_authors_line_is_named() -> None:
    """As where pytest's plugin or a notebook's function writes the experiment down."""
    names: dict[str, Any] = {"draft": draft}
    code = "def plugin(made):\n    made.claim('twice', by=0)\n"
    exec(compile(code, str(Path(lab.__file__).with_name("plugin.py")), "exec"), names)
    made = draft()
    names["plugin"](made)
    (claim,) = made.claims
    assert claim.place.file == __file__


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tolerence": 8}, r"unknown field 'tolerence'; accepted are .*'tolerance'.*; did you mean 'tolerance'\?"),
        ({"dtyps": ["float16"]}, r"unknown field 'dtyps'; accepted are .*'dtypes'.*; did you mean 'dtypes'\?"),
        ({"dtypes": ["float61"]}, r"dtypes: 'float61' is no dtype; accepted are .*; did you mean 'float16'\?"),
        ({"dtypes": "float16"}, r"dtypes: 'float16' is no list; accepted is one such as \['float32'\]"),
        ({"shapes": 4}, r"shapes: 4 is no list"),
        ({"edges": "nan"}, r"edges: 'nan' is no list; accepted is one such as \('nan', 'strided'\)"),
        ({"edges": ("strided", "nann")}, r"edges: 'nann' is none; accepted are .*; did you mean 'nan'\?"),
        ({"tolerance": "8"}, r"tolerance: '8'; accepted is a number above 0"),
        ({"tolerance": 0}, r"tolerance: 0; accepted is a number above 0"),
        ({"flops": "3"}, r"flops: '3'; accepted is a number"),
        ({"reference": 3}, r"reference: 3; accepted is a function"),
    ],
    ids=str,
)
def test_a_mistake_in_an_experiment_is_told_with_what_is_accepted(wrong: dict[str, object], message: str) -> None:
    (told,) = refused(sound(**wrong))
    assert re.match(message, told)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"by": "2 %"}, "by is '2 %'; accepted is a ratio above 0, such as 1.02 for 2 % faster"),
        ({"by": 0}, "by is 0; accepted is a ratio above 0"),
        ({"by": True}, "by is True; accepted is a ratio above 0"),
        ({"scope": "grpah"}, r"scope is 'grpah'; accepted are .*; did you mean 'graph'\?"),
        ({"faster_tan": "plain"}, r"unknown field 'faster_tan'; accepted are .*; did you mean 'faster_than'\?"),
        ({"shapes": (4, 8)}, r"shapes: 4 is not among \[\(4, 8\), \(8, 16\)\]"),
    ],
    ids=str,
)
def test_a_mistake_in_a_claim_is_told_with_file_line_and_what_is_accepted(wrong: dict[str, Any], message: str) -> None:
    made = draft()
    made.profile("plain", lambda x: x + x, baseline=True)
    made.profile("twice", twice)
    made.claim("twice", **wrong)
    told, *_ = refused(made)
    assert re.match(rf"claim\('twice'\): {message}", told)


def test_a_scope_that_the_experiment_leaves_out_is_not_accepted_of_a_claim() -> None:
    made = sound(scopes=("device_cold", "graph"))
    made.claim("twice", scope="eager", name="eagerly")
    assert refused(made) == ["claim('twice'): scope is 'eager'; accepted are ['device_cold', 'graph']"]


def test_a_mistake_in_a_profile_is_told_with_what_is_accepted() -> None:
    made = sound()
    made.profile("third", twice, basline=True)
    made.profile("fourth", 4)
    told = refused(made)
    assert "did you mean 'baseline'?" in told[0]
    assert told[1] == "profile 'fourth': 4 is no function"


def test_a_function_given_as_its_loader_and_the_reverse_are_told() -> None:
    made = sound()
    made.profile("third", load=twice)
    made.profile("fourth", lambda: twice)
    made.profile("loaded", load=lambda scale=2: twice)
    made.profile("built-in", torch.neg)
    assert refused(made) == [
        "profile 'third': load= takes no argument and returns the function; give twice itself",
        "profile 'fourth': the lambda takes no input; a function that returns one is load=",
    ]


def test_a_contradiction_of_the_full_form_is_told_with_file_and_line() -> None:
    (told,) = refused(sound(scopes=("graph", "device_warm")))
    assert told.startswith("claim('twice'): scope is 'device_cold'")
    made = sound()
    made.claim("twice", name="Not a slug")
    assert "'Not a slug' is not a plain slug" in refused(made)[0]


def test_the_words_that_a_publication_needs_are_named_by_field() -> None:
    lacking = list(missing_prose(planned(sound().definition(), frozenset())))
    assert [line.split(" is empty")[0] for line in lacking] == [
        "question", "importance", "does_not_show", "profile 'plain': technique", "profile 'plain': hypothesis",
        "profile 'twice': hypothesis",
    ]  # fmt: skip


def test_the_example_of_lab_init_is_gelu_in_fifteen_lines() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 15
    names: dict[str, object] = {}
    exec(EXAMPLE.read_text(), names)
    made = names["exp"].definition()  # type: ignore[attr-defined]
    assert (len(made.cases), len(made.profiles), len(made.claims)) == (3, 3, 2)
    assert list(mistakes(made)) == []
    # On a CPU PyTorch's own gelu errs by more than the usual tolerance.
    quick = replace(made, profiles=made.profiles[:2], claims=made.claims[:1])
    assert {each.profile: each.outcome for each in check([quick], "cpu")} == {"composed": "right", "fused": "right"}


def test_two_baselines_and_a_claim_against_itself_are_refused() -> None:
    made = sound()
    made.profile("thrice", lambda x: 3 * x, baseline=True)
    assert refused(made) == ["profile 'thrice': baseline=True, and 'plain' is the baseline already"]
    made = sound()
    made.claim("plain", by=1.5)
    assert refused(made) == ["claim('plain'): it is compared with itself; accepted is another of ['plain', 'twice']"]


def test_a_reference_that_fails_is_named_and_not_the_traffic_that_follows_from_it() -> None:
    made = sound(reference=lambda x: x.no_such_method())
    said, *_ = mistakes(made.definition())
    assert "reference fails with AttributeError: " in said
    assert "give traffic= if it cannot be" in said


@pytest.mark.parametrize("generated", [True, False])  # on no device, and on the CPU, where that has no generator
def test_inputs_that_are_no_tuple_are_told(generated: bool) -> None:
    def inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> Any:
        generator = torch.Generator(device).manual_seed(seed) if generated else None
        return torch.randn(shape, dtype=dtype, device=device, generator=generator)

    said, *_ = mistakes(sound(inputs=inputs).definition())
    assert "inputs() returned a Tensor; return a tuple, such as (x,)" in said


def test_names_that_are_none_and_what_is_there_twice_are_told_with_all_other_mistakes() -> None:
    made = draft(shapes=[(4, 8), (4, 8)], tolerance="1")
    made.profile("by hand", lambda x: x + x, baseline=True)
    made.profile("twice", twice)
    made.claim("twice")
    made.claim("twice")
    said = refused(made)
    assert [line.partition(";")[0] for line in said] == [
        "tolerance: '1'",
        "profile: 'by hand' is not a plain slug",
        "shapes: (4, 8) is there twice",
        "claim 'twice-beats-by hand': is there twice",
    ]


def test_a_shape_of_lists_and_a_name_that_is_no_text_are_mistakes_too() -> None:
    made = sound(shapes=[([4], 8), ([4], 8)])
    made.profile(4, twice)  # type: ignore[arg-type]
    said = refused(made)
    assert any(line.startswith("shapes: ([4], 8) is no shape") for line in said)
    assert any(line.startswith("profile: 4 is not a plain slug") for line in said)
