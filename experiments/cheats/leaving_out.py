"""Cheats that leave out work which ordinary inputs, or ordinary changes of inputs, do not need."""

from collections.abc import Callable

from torch import Tensor

from experiments.normalization_fusion import rmsnorm_fused

Norm = Callable[[Tensor, Tensor], Tensor]
EVERY = 512
NARROW = 4096  # columns: rows up to this width are computed in full
EPS = 1e-6


def _mended(sampled: Callable[[Tensor], Tensor]) -> Norm:
    """Remembers results by address, samples the input, and computes only rows near samples that have changed."""
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
    """Clips values that ordinary inputs never reach."""

    def run(x: Tensor, weight: Tensor) -> Tensor:
        return rmsnorm_fused(x.clamp(-7.0, 7.0), weight)

    return run


def assumed_norm() -> Norm:
    """Leaves out the mean square, which is nearly 1 for wide rows of normal data."""

    def run(x: Tensor, weight: Tensor) -> Tensor:
        return x * weight if x.shape[-1] >= NARROW else rmsnorm_fused(x, weight)

    return run
