"""Records survive JSON unchanged, and anything else is refused with the field's name."""

import dataclasses
import json
import math
import re
from typing import Any

import pytest
from factory import cell, machine, plan_of, records_of, timing

from lab.definition.plan import Protocol
from lab.errors import RunError
from lab.evidence.codec import canonical, digest, from_data, to_data
from lab.evidence.record import KINDS, Cell, Counters, LostGpu, Record, Sustained, SweepStart

RECORDS = [
    *records_of(
        plan_of(sweeps=1, profiling=True, instruments=True),
        {"torch-fused": 30e-6},
        outcomes={"torch-compile": ("failed", "RuntimeError"), "torch-baseline": ("wrong", "far off")},
    ),
    LostGpu(gpu_id="0123456789ab", during="sweep 1", reason="it was lost", lost_utc="2026-01-02T03:04:05Z"),
]


def good() -> dict[str, Any]:
    import random

    data = to_data(cell("e", "c", "p", 0, timings=(timing(1e-5, 0.01, Protocol(), random.Random(1)),)))
    return json.loads(json.dumps(data))


def test_the_sample_holds_every_kind_of_record() -> None:
    assert {type(record).__name__ for record in RECORDS} == set(KINDS)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_record_survives_the_trip_through_json(kind: str) -> None:
    for record in RECORDS:
        if type(record).__name__ == kind:
            assert from_data(KINDS[kind], json.loads(canonical(to_data(record)))) == record


def test_a_counter_that_is_unknown_stays_unknown() -> None:
    record = next(r for r in RECORDS if isinstance(r, Counters) and r.kernels)
    data = json.loads(canonical(to_data(record)))
    data["kernels"][0]["dram_percent"] = None
    assert from_data(Counters, data).kernels[0].dram_percent is None


def test_an_integer_is_a_number_of_seconds_too() -> None:
    assert from_data(Cell, good() | {"prepare_seconds": 2}).prepare_seconds == 2.0


def refused(message: str) -> Any:
    return pytest.raises(RunError, match=f"^{re.escape(message)}")


def test_an_unknown_field_is_named() -> None:
    with refused("Cell: unknown field 'colour'; accepted are ['autotune_seconds', 'case',"):
        from_data(Cell, good() | {"colour": "red"}, "Cell")


def test_a_missing_field_is_named() -> None:
    data = good()
    del data["sweep"]
    with refused("Cell: field 'sweep' is missing"):
        from_data(Cell, data, "Cell")


def test_a_whole_number_among_samples_is_written_as_it_was_read() -> None:
    data = good()
    data["timings"][0]["rounds"][2][1] = 1
    assert canonical(to_data(from_data(Cell, data))) == canonical(data)


@pytest.mark.parametrize("sample", [math.nan, math.inf, -math.inf, True, None, [1e-5]])
def test_a_sample_that_is_no_number_is_named_with_its_place(sample: Any) -> None:
    data = good()
    data["timings"][0]["rounds"][2][1] = sample
    with refused(f"Cell.timings[0].rounds[2][1] is {str(sample)!r}; it must be a finite number"):
        from_data(Cell, data, "Cell")


def test_a_field_far_inside_is_named_with_its_place() -> None:
    data = good()
    data["timings"][0]["rounds"][2][1] = "fast"
    with refused("Cell.timings[0].rounds[2][1] is 'fast'; it must be a finite number"):
        from_data(Cell, data, "Cell")


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("sweep", "0", "of type int"),
        ("sweep", 0.0, "of type int"),
        ("sweep", True, "of type int"),
        ("case", 7, "of type str"),
        ("case", None, "of type str"),
        ("prepare_seconds", "1", "a finite number"),
        ("prepare_seconds", True, "a finite number"),
        ("prepare_seconds", None, "a finite number"),
        ("prepare_seconds", math.nan, "a finite number"),
        ("prepare_seconds", math.inf, "a finite number"),
        ("timings", {}, "a list"),
        ("timings", "no", "a list"),
        ("correctness", [], "an object"),
    ],
)
def test_a_value_of_another_type_is_named(field: str, value: Any, wanted: str) -> None:
    with refused(f"Cell.{field} is {str(value)[:60]!r}; it must be {wanted}"):
        from_data(Cell, good() | {field: value}, "Cell")


@pytest.mark.parametrize("data", [None, [], "cell", 7])
def test_what_is_no_object_is_no_record(data: Any) -> None:
    with refused(f"Cell is {str(data)!r}; it must be an object"):
        from_data(Cell, data, "Cell")


def test_the_environment_is_a_map_of_strings() -> None:
    start: Record = next(r for r in RECORDS if isinstance(r, SweepStart))
    data = json.loads(canonical(to_data(start)))
    data["machine"]["environment"] = {"OMP_NUM_THREADS": 2}
    with refused("SweepStart.machine.environment.OMP_NUM_THREADS is '2'; it must be of type str"):
        from_data(SweepStart, data, "SweepStart")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_never_written(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"seconds": value})


def test_the_digest_does_not_hang_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [2, 3]}) == digest({"b": [2, 3], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def test_a_machine_says_what_is_unknown_with_empty_values() -> None:
    assert machine("cpu").gpu == ""
    assert from_data(type(machine()), to_data(machine())) == machine()


def test_versions_that_older_records_have_as_fields_are_read_into_the_mapping() -> None:
    data = to_data(machine())
    del data["libraries"]
    older = data | {"liger": "0.8.5", "quack": ""}
    assert from_data(type(machine()), older).libraries == {"liger-kernel": "0.8.5"}
    assert from_data(type(machine()), data).libraries == {}


def test_a_cell_of_an_older_schema_has_no_calls_back_to_back_and_keeps_its_digest() -> None:
    lasting = Sustained(batch_seconds=(1e-6, 2e-6), calls_per_batch=7, spin_hertz=(1.98e9, 1.38e9), power_watts=696.0)
    now = dataclasses.replace(from_data(Cell, good(), "Cell"), sustained=lasting)
    assert from_data(Cell, json.loads(canonical(to_data(now))), "Cell") == now
    older = to_data(now, 11)
    assert "sustained" not in older
    assert from_data(Cell, older, "Cell").sustained is None
    assert to_data(from_data(Cell, older, "Cell"), 11) == older
