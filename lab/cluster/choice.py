"""Options → the GPUs of a run, where it is to have several."""

import argparse

from lab.cluster.link import Crew
from lab.cluster.local import LocalCrew, gpus_of_this_host
from lab.cluster.on_ray import RayCrew
from lab.errors import PlanError

RAY = "ray"


def crew_of(options: argparse.Namespace, device: str) -> Crew | None:
    """None where the run has one GPU of this host, or a CPU. PlanError for options that exclude each other."""
    if options.gpus is not None and options.gpus < 1:
        raise PlanError(f"--gpus {options.gpus}: accepted are 1 and more")
    if options.executor == RAY:
        return RayCrew(options.ray_address, options.gpus)
    if options.ray_address:
        raise PlanError(f"--ray-address {options.ray_address}: is for --executor {RAY}")
    if options.gpus is None or options.gpus == 1:
        for name in ("in_turn", "gpu_model"):
            if getattr(options, name):
                option = f"--{name.replace('_', '-')}"
                raise PlanError(f"{option} is for a run on several GPUs; ask for them by --gpus K or --executor {RAY}")
        return None
    if device != "cuda":
        raise PlanError(f"--gpus {options.gpus}: this run measures the CPU")
    return LocalCrew(gpus_of_this_host(options.gpus))
