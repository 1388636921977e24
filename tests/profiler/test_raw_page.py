"""A real table of ncu 2025.3.1 from an H100: RMSNorm at 4096x4096 by five profiles."""

import re

import pytest
from fake_ncu import CASE, SAMPLE

from lab.profiler.raw_page import READ_BYTES, ProfiledLaunch, read_kernels, read_launches

BASELINE, TRITON = (CASE, "torch-baseline"), (CASE, "triton-fused-rmsnorm")


def test_launches_go_to_the_cell_whose_range_they_lie_in() -> None:
    names = {profile: [kernel.name for kernel in kernels] for (_, profile), kernels in read_kernels(SAMPLE).items()}
    assert names == {
        "torch-baseline": [
            "unrolled_elementwise_kernel", "vectorized_elementwise_kernel", "reduce_kernel",
            *["vectorized_elementwise_kernel"] * 3, *["elementwise_kernel"] * 2,
        ],
        "torch-fused": ["vectorized_layer_norm_kernel"],
        "torch-compile": ["triton_red_fused__fused_rms_norm_0"],
        "triton-fused-rmsnorm": ["_rmsnorm_kernel"],
        "liger": ["_rms_norm_forward_kernel"],
    }  # fmt: skip


def test_a_launch_is_read_whole_and_in_si_units() -> None:
    (kernel,) = read_kernels(SAMPLE)[TRITON]
    assert (kernel.grid, kernel.block) == ("(4096, 1, 1)", "(256, 1, 1)")
    assert kernel.duration_seconds == pytest.approx(19.712e-6)
    assert (kernel.dram_read_bytes, kernel.dram_written_bytes) == (33_571_072, 12_890_624)
    assert kernel.dram_percent == 70.45
    assert (kernel.occupancy_percent, kernel.theoretical_occupancy_percent) == (65.55, 75)
    assert (kernel.registers_per_thread, kernel.shared_bytes_per_block) == (38, 1056)
    assert (kernel.l2_hit_percent, kernel.sm_percent, kernel.tensor_percent) == (50.21, 25.18, 0)
    assert kernel.sm_hertz == 1_956_274_904.07


def test_every_limit_of_the_occupancy_is_read() -> None:
    (kernel,) = read_kernels(SAMPLE)[TRITON]
    assert kernel.blocks_per_multiprocessor == {
        "blocks": 32, "registers": 6, "shared_mem": 14, "warps": 8, "barriers": 32,
    }  # fmt: skip


def test_what_the_warps_waited_for_is_read_and_issuing_is_no_stall() -> None:
    (kernel,) = read_kernels(SAMPLE)[TRITON]
    assert len(kernel.stalls) == 18
    assert "selected" not in kernel.stalls
    assert max(kernel.stalls, key=lambda reason: kernel.stalls[reason]) == "long_scoreboard"
    waits = read_kernels(SAMPLE)[BASELINE][2].stalls
    assert (waits["barrier"], waits["long_scoreboard"], waits["wait"]) == (5.22, 73.75, 2.33)


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x85"])
def test_a_kernels_name_may_hold_what_other_tools_take_for_the_end_of_a_line(separator: str) -> None:
    kernels = read_kernels(SAMPLE.replace('"_rmsnorm_kernel"', f'"_rmsnorm{separator}kernel"'))
    assert [kernel.name for kernel in kernels[TRITON]] == [f"_rmsnorm{separator}kernel"]


@pytest.mark.parametrize("text", ["n/a", "", "nan", "inf", "1_000", "45,67", "12 %"])
def test_a_counter_without_a_number_is_unknown_and_not_zero(text: str) -> None:
    first = read_kernels(SAMPLE.replace('"46.12"', f'"{text}"'))[BASELINE][0]
    assert first.dram_percent is None
    assert first.dram_read_bytes == 33_592_832


@pytest.mark.parametrize(
    ("metric", "field", "unknown"),
    [
        ("gpu__time_duration.sum", "duration_seconds", None),
        ("launch__occupancy_limit_barriers", "blocks_per_multiprocessor",
         {"blocks": 32, "registers": 6, "shared_mem": 14, "warps": 8}),
        ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "tensor_percent", None),
    ],
)  # fmt: skip
def test_a_metric_that_the_report_lacks_costs_itself_only(metric: str, field: str, unknown: object) -> None:
    (kernel,) = read_kernels(SAMPLE.replace(f'"{metric}"', '"another"'))[TRITON]
    assert getattr(kernel, field) == unknown
    assert kernel.dram_read_bytes == 33_571_072


def test_stalls_that_no_column_tells_are_none_at_all() -> None:
    (kernel,) = read_kernels(SAMPLE.replace("_per_issue_active.ratio", "_per_issue_active.other"))[TRITON]
    assert kernel.stalls == {}


def test_launches_outside_any_range_are_left_out() -> None:
    assert read_kernels(re.sub(r'"460  ""<default[^,]*,', '"",', SAMPLE)) == {}


@pytest.mark.parametrize("table", ["", "==WARNING== nothing here", SAMPLE.splitlines()[0]])
def test_a_table_without_a_launch_has_none(table: str) -> None:
    assert read_kernels(table) == {}


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        pytest.param(
            SAMPLE.replace('"ns"', '"us"'),
            r"gpu__time_duration\.sum has unit 'us'; known are \['%', 'block',", id="another unit",
        ),
        pytest.param(SAMPLE.replace('"hz"', '""'), r"per_second has unit ''; known", id="no unit"),
        pytest.param(SAMPLE.replace('"Kernel Name"', '"Function"'), "column Kernel Name is missing", id="no name"),
        pytest.param(SAMPLE + '"' + "x" * 200_000 + '"', "the table cannot be read: field larger", id="huge field"),
        pytest.param(SAMPLE[:-60], "a row has not as many fields as the header", id="cut short"),
    ],
)  # fmt: skip
def test_a_table_of_another_form_is_refused(table: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_kernels(table)


def test_one_counter_of_each_launch_can_be_read_alone() -> None:
    read = [launch.number(READ_BYTES) for launch in read_launches(SAMPLE) if launch.range == TRITON]
    assert read == [33_571_072]


def test_a_counter_beyond_every_number_is_unknown() -> None:
    assert ProfiledLaunch(TRITON, {READ_BYTES: "1e999"}, {READ_BYTES: "byte"}).number(READ_BYTES) is None


def test_a_counter_without_a_number_needs_no_unit() -> None:
    units, first = {READ_BYTES: ""}, {READ_BYTES: "n/a"}
    assert ProfiledLaunch(TRITON, first, units).number(READ_BYTES) is None
