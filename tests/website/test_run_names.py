"""A run's page says where its name tells of another GPU, or of another day, than was measured."""

import pytest

from lab.website.pages.run_names import misnomers

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
NOON, LATE, NEXT = "2026-11-27T11:23:41Z", "2026-11-27T23:50:00Z", "2026-11-28T00:10:00Z"


@pytest.mark.parametrize(
    ("run_id", "gpu", "started", "ended"),
    [
        ("h200-alone-2026-11-27", H200, NOON, NOON), ("first-look", H200, NOON, NOON),
        ("late-2026-11-27", H100, LATE, NEXT), ("late-2026-11-28", H100, LATE, NEXT),
        ("h100-and-h200", H200, NOON, NOON), ("h100-on-a-cpu", "", NOON, NOON),
        ("begun-2026-11-27", H100, NOON, ""), ("version-12026-11-285", H100, NOON, NOON),
    ],
)  # fmt: skip
def test_a_name_that_fits_is_not_remarked_on(run_id: str, gpu: str, started: str, ended: str) -> None:
    assert list(misnomers(run_id, gpu, started, ended)) == []


@pytest.mark.parametrize(
    ("run_id", "gpu", "ended", "told"),
    [
        ("h100-alone-2026-11-27", H200, NOON, ["The name says H100; the run was measured on an NVIDIA H200."]),
        ("h100-attention-1-2026-11-28", H100, NOON,
         ["The name says 2026-11-28; the run was measured on 2026-11-27 (UTC)."]),
        ("a100-2026-11-29", "Tesla V100-SXM2-32GB", NEXT,
         ["The name says A100; the run was measured on a Tesla V100-SXM2-32GB.",
          "The name says 2026-11-29; the run was measured on 2026-11-27 and 2026-11-28 (UTC)."]),
    ],
)  # fmt: skip
def test_a_name_of_another_gpu_or_day_is_put_right(run_id: str, gpu: str, ended: str, told: list[str]) -> None:
    assert list(misnomers(run_id, gpu, NOON, ended)) == told
