"""What a call takes back to back, at the clock that the board's power limit leaves.

The timed calls of a round are spaced, and a board that multiplies without pause reaches its power limit within about
0.1 s: on an H100 a bfloat16 product of 8192³ ran at 754 TFLOP/s in its first calls, and then at 690, at 1.38 GHz and
696 W. No claim is judged by these times.
"""

import math
import os
import statistics

from lab.evidence.nvml import GpuState, visible_gpu
from lab.evidence.record import Sustained, Timing, slowdown
from lab.worker.clock import Clock, Replay

# Before the last batch, at the pace of spaced calls; at the power limit about a tenth more. NVML's power is on an H100
# the mean of the last second, in which nothing else should have run.
LEADING_SECONDS = 1.05
BATCH_SECONDS = 0.05
NEVER_SPACED = "no replay of its graph was timed in the rounds, so that nobody knows how many make a second"
LATE = "the host replays its graph too slowly to keep the GPU busy"
FOREIGN = "another process on the GPU"


def sustained(clock: Clock, replay: Replay, spaced: Timing) -> Sustained:
    """A graph, replayed back to back for LEADING_SECONDS and one more batch. `spaced`: its replays in the rounds."""
    calls = spaced.calls_per_sample
    seconds = [second for block in spaced.rounds for second in block]
    if not seconds:
        return Sustained(reason=NEVER_SPACED)
    replay_seconds = calls * statistics.median(seconds)
    replays = max(1, round(BATCH_SECONDS / replay_seconds))
    batches = math.ceil(LEADING_SECONDS / (replays * replay_seconds)) + 1
    with visible_gpu(clock.device) as gpu:
        took = clock.back_to_back(replay, replays, batches, lambda: gpu.state() if gpu else None)
    if took.late:
        return Sustained(reason=LATE)
    state: GpuState | None = took.told
    if state and (disturbance := _disturbance(state)):
        return Sustained(reason=disturbance)
    return Sustained(
        batch_seconds=tuple(float(f"{each / (replays * calls):.7g}") for each in took.seconds),
        calls_per_batch=replays * calls,
        spin_hertz=took.spin_hertz,
        power_watts=state.power_watts if state else None,
    )


def _disturbance(state: GpuState) -> str:
    """What the profile is not to blame for, or nothing; what is not known is no fault."""
    if reason := slowdown(state.reasons):
        return reason
    listed = state.processes or frozenset()
    # Where NVML does not list this process, it counts processes in another namespace: all would seem foreign.
    return FOREIGN if os.getpid() in listed and not all(map(_of_this_run, listed)) else ""


def _of_this_run(process: int) -> bool:
    """The supervisor, or a process in a session that it began: each worker leads one."""
    supervisor = _beginner(os.getpid())
    return supervisor in (process, _beginner(process))


def _beginner(process: int) -> int | None:
    """The process that began the session of this one."""
    try:
        with open(f"/proc/{os.getsid(process)}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:  # it has ended, or may not be looked at
        return None
