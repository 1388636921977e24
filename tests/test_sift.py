"""Records that cannot be a run's are set aside; see test_results for those of cells."""

from factory import canary, plan_of, records_of, small_experiment

from lab.sift import sift


def test_canaries_of_two_experiments_with_a_case_of_one_name_are_both_kept_and_a_copied_one_is_not() -> None:
    plan = plan_of(device="cpu", experiments=[small_experiment()])
    records = records_of(plan, {"plain": 1e-3, "fast": 1e-3})
    sung = [canary(0, "0-1000", "same", experiment=name) for name in ("e", "f", "f")]
    kept, strangers = sift(plan, [*records, *sung], set())
    assert kept == [*records, *sung[:2]]
    assert [(s.line_number, s.reason) for s in strangers] == [(len(records) + 3, "repeats a canary of this sweep")]
