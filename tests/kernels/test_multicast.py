"""Copies that two programs share: what becomes of a kernel's PTX. Values are tested where products are."""

import threading

import pytest
import triton
from triton import knobs
from triton.language import constexpr
from triton.runtime.jit import JITFunction

from lab.kernels import changed_ptx, multicast
from lab.kernels.changed_ptx import can_change, changing
from lab.kernels.gemm_rule import gemm_rule
from lab.kernels.multicast import MARK, SHARED_COPIES, next_copy_to_both, shared_copies

KERNEL = """
.visible .entry kernel(
	.param .u64 a
)
.reqntid 384
{
	.reg .b32 %r<9>;
	// begin inline asm
	mov.u32 %r1, %r2; // multicast VERSION
	// end inline asm
	@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1, {%r4, %r5}], [%r6];
	@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%rd2, {%r4, %r5}], [%r6];
	@%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 1024;
	@%p2 mbarrier.arrive.shared::cta.b64 _, [%r8], 1;
	ret;
}
""".replace("VERSION", multicast.VERSION)


def test_a_marked_copy_goes_to_both_programs_and_both_are_told_what_is_free() -> None:
    made = shared_copies(KERNEL)
    assert "bytes.multicast::cluster [%r3], [%rd1, {%r4, %r5}], [%r6], %both;" in made
    assert "bytes [%r7], [%rd2, {%r4, %r5}], [%r6];" in made  # not marked
    assert made.count("mapa.shared::cluster.u32 %there, %r8, ") == 2
    assert made.count("@%p2 mbarrier.arrive.shared::cluster.b64 _, [%there];") == 2
    assert "mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 1024;" in made
    assert ".reqntid 384\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{\n\t.reg .b16 %both;" in made


def test_other_kernels_stay_as_they_are() -> None:
    other = KERNEL.replace("// multicast", "// nothing")
    assert shared_copies(other) == other


@pytest.mark.parametrize(
    ("expected", "other"), [("cp.async.bulk.tensor.2d", "cp.async.bulk.tensor.3d"), (".reqntid", ".maxntid")]
)
def test_ptx_that_is_not_known_is_refused(expected: str, other: str) -> None:
    with pytest.raises(RuntimeError, match=r"is not that of Triton 3\.6"):
        shared_copies(KERNEL.replace(expected, other))


def test_what_is_compiled_depends_on_how_ptx_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton keeps compiled kernels under a digest of their source."""

    def digest() -> str:
        kernel = JITFunction(next_copy_to_both.fn)
        kernel.used_global_vals.clear()
        return str(kernel.cache_key)

    before = digest()
    assert digest() == before
    monkeypatch.setattr(multicast, "MARK", constexpr(MARK.value + "other"))
    assert digest() != before


def test_while_one_thread_compiles_no_other_changes_the_hook() -> None:
    first_is_in, second_is_in, first_is_out = threading.Event(), threading.Event(), threading.Event()
    hooked = []

    def first() -> None:
        with changing(SHARED_COPIES):
            first_is_in.set()
            second_is_in.wait(0.3)  # which it is not, unless it need not wait
        first_is_out.set()

    def second() -> None:
        first_is_in.wait()
        with changing(SHARED_COPIES):
            second_is_in.set()
            first_is_out.wait()
            hooked.append(knobs.runtime.add_stages_inspection_hook is not None)

    threads = [threading.Thread(target=each) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert hooked == [True]
    assert knobs.runtime.add_stages_inspection_hook is None


def test_another_hook_of_the_user_is_called_too(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", lambda *about: called.append(about))
    stages = {"ptx": lambda source, metadata: KERNEL}
    with changing(SHARED_COPIES):
        knobs.runtime.add_stages_inspection_hook("backend", stages, "options", "language", 90)
    assert called == [("backend", stages, "options", "language", 90)]
    assert ".multicast::cluster" in stages["ptx"]("", {})
    knobs.runtime.add_stages_inspection_hook()
    assert len(called) == 2  # the user's own is back


def test_only_where_it_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_ptx, "capability", lambda device: (9, 0) if device == 0 else (10, 0))
    monkeypatch.setattr(triton, "__version__", "3.6.0")
    assert can_change(0)
    assert not can_change(1)
    monkeypatch.setattr(triton, "__version__", "3.8.0")
    assert not can_change(0)


@pytest.mark.parametrize(
    ("K", "itemsize", "shared"),
    # Of 3001 and 3004 elements none begins at a multiple of 16 bytes: they are copied to lines.
    [(3000, 2, True), (3008, 2, False), (1504, 4, False), (3008, 1, True), (3001, 2, False), (3004, 1, False)],
)
def test_the_rule_shares_tiles_if_rows_begin_between_lines(K: int, itemsize: int, shared: bool) -> None:
    chosen = dict(gemm_rule((2048, 2048, K), itemsize).constants)
    assert (chosen.get("CLUSTER") == 2) == shared
