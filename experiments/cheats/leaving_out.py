"""Cheats that leave work out where ordinary inputs, or ordinary changes of them, do not show it."""

from collections.abc import Callable

from torch import Tensor

from experiments.normalization_fusion import rmsnorm_fused

Norm = Callable[[Tensor, Tensor], Tensor]
EVERY = 512
NARROW = 4096  # columns: rows that are as wide are computed in full
EPS = 1e-6


def _mended(sampled: Callable[[Tensor], Tensor]) -> Norm:
    """Remembers by address, looks at a sample, and computes only rows around what it finds changed."""
    known: dict[int, tuple[Tensor, Tensor]] = {}

    def run(x: Tensor, weight: Tensor) -> Tensor:
        now = sampled(x).clone()
        entry = known.get(x.data_ptr())
        if entry is None or entry[0].shape != now.shape or entry[1].shape != x.shape:
            y = rmsnorm_fused(x, weight)
        else:
            y = entry[1].clone()
            places = (now != entry[0]).nonzero().flatten()
            if len(places):
                columns = x.shape[-1]
                first = max(0, (int(places[0]) * EVERY - EVERY) // columns)
                last = min(len(x), (int(places[-1]) * EVERY + EVERY) // columns + 1)
                y[first:last] = rmsnorm_fused(x[first:last], weight)
        known[x.data_ptr()] = now, y.clone()
        return y

    return run


def sampled_stretch() -> Norm:
    return _mended(lambda x: x.view(-1)[::EVERY])


def sampled_stretch_from_the_middle() -> Norm:
    return _mended(lambda x: x.view(-1)[EVERY // 2 :: EVERY])


def _by_part(part: Callable[[Tensor], Tensor]) -> Norm:
    def run(x: Tensor, weight: Tensor) -> Tensor:
        if x.shape[-1] < NARROW:
            return rmsnorm_fused(x, weight)
        scale = part(x).float().pow(2).mean(-1, keepdim=True).add_(EPS).rsqrt_()
        return (x * scale * weight).to(x.dtype)

    return run


def first_quarter() -> Norm:
    return _by_part(lambda x: x[..., : x.shape[-1] // 4])


def every_fourth_column() -> Norm:
    return _by_part(lambda x: x[..., ::4])


def clipped() -> Norm:
    """Leaves out what ordinary numbers never reach."""

    def run(x: Tensor, weight: Tensor) -> Tensor:
        return rmsnorm_fused(x.clamp(-7.0, 7.0), weight)

    return run


def assumed_norm() -> Norm:
    """Leaves the mean square out: of ordinary rows that are wide it is nearly 1."""

    def run(x: Tensor, weight: Tensor) -> Tensor:
        return x * weight if x.shape[-1] >= NARROW else rmsnorm_fused(x, weight)

    return run
