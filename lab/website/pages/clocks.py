"""What the clock of a scope covers, in the words of a caption: a CPU's times are wall times, and say so."""

from collections.abc import Sequence

ON_GPU = {
    "device_cold": "GPU time of one call with nothing cached",
    "device_warm": "GPU time of one call with inputs cached",
    "device_dirty": "GPU time of one call after a flush that leaves dirty lines, as in do_bench and nvbench",
    "graph": "GPU time of one call in a replayed CUDA graph",
    "eager": "what a caller of Python waits, launch included",
}
ON_CPU = {
    "device_cold": "wall time of one call on the CPU, its last-level cache flushed before",
    "device_warm": "wall time of one call on the CPU with inputs cached",
}


def clock_words(scope: str, on_cpu: bool) -> str:
    """'GPU time of one call with nothing cached', and 'wall time of one call on the CPU, …' of the same scope."""
    return (ON_CPU if on_cpu else ON_GPU).get(scope, f"scope {scope}")


def clocks_of(scope: str, on_cpu: Sequence[bool]) -> str:
    """The same of several runs, of which some may have measured a CPU."""
    kinds = sorted(set(on_cpu))
    if len(kinds) < 2:
        return clock_words(scope, bool(kinds and kinds[0]))
    return f"{clock_words(scope, False)}; of CPU evidence {clock_words(scope, True)}"


def legend(scopes: Sequence[str], on_cpu: bool) -> tuple[tuple[str, str], ...]:
    """Each scope that was measured, and what its clock covers."""
    known = ON_CPU if on_cpu else ON_GPU
    return tuple((scope, known[scope]) for scope in scopes if scope in known)
