"""What a call takes back to back, at the clock that the board's power limit leaves.

The timed calls of a round are spaced, and a board that multiplies without pause reaches its power limit within about
0.1 s: on an H100 a bfloat16 product of 8192³ ran at 754 TFLOP/s in its first calls, and then at 690, at 1.38 GHz and
696 W. No claim is judged by these times.
"""

import statistics

from lab.evidence.nvml import visible_gpu
from lab.evidence.record import Sustained, Timing
from lab.worker.clock import Clock, Replay

# At the pace of spaced calls; at the power limit about a tenth more. NVML's power is on an H100 the mean of the last
# second, in which nothing else should have run.
LASTING_SECONDS = 1.1
BATCH_SECONDS = 0.05
NEVER_SPACED = "no replay of its graph was timed in the rounds, so that nobody knows how many make a second"
LATE = "the host replays its graph too slowly to keep the GPU busy"


def sustained(clock: Clock, replay: Replay, spaced: Timing) -> Sustained:
    """A graph, replayed back to back for about LASTING_SECONDS; `spaced` are the times of its replays in the rounds."""
    calls = spaced.calls_per_sample
    seconds = [second for block in spaced.rounds for second in block]
    if not seconds:
        return Sustained(reason=NEVER_SPACED)
    replay_seconds = calls * statistics.median(seconds)
    replays = max(1, round(BATCH_SECONDS / replay_seconds))
    batches = max(2, round(LASTING_SECONDS / (replays * replay_seconds)))
    with visible_gpu(clock.device) as gpu:
        took = clock.back_to_back(replay, replays, batches, lambda: gpu.state().power_watts if gpu else None)
    if took.late:
        return Sustained(reason=LATE)
    return Sustained(
        batch_seconds=tuple(float(f"{each / (replays * calls):.7g}") for each in took.seconds),
        calls_per_batch=replays * calls,
        spin_hertz=took.spin_hertz,
        power_watts=took.told,
    )
