"""Every cheat and honest oddity of experiments/cheats as a profile, with the check that finds it or why it is right."""

from collections.abc import Callable
from typing import Any

from experiments.cheats import finishing_later, leaving_out, oddities, reaching, shared_state
from lab import Profile

Loader = Callable[[], Callable[..., Any]]
EITHER, GPU, CPU = ("cuda", "cpu"), ("cuda",), ("cpu",)


def cheat(
    name: str,
    trick: str,
    why: str,
    load: Loader,
    devices: tuple[str, ...] = EITHER,
    kernel: str = "",
    op: str = "rmsnorm",
) -> Profile:
    return Profile(
        name=name, title=name.replace("-", " "), technique=trick,
        hypothesis=f"Would look fast, or right, to a careless benchmark. Here: {why}",
        signal="No claim of it is supported.",
        implementations={op: load}, kernels={op: kernel} if kernel else None, devices=devices,
    )  # fmt: skip


def honest(
    name: str, oddity: str, load: Loader, devices: tuple[str, ...] = EITHER, in_place: bool = False, kernel: str = ""
) -> Profile:
    return Profile(
        name=name, title=name.replace("-", " "), technique=oddity,
        hypothesis="Right, if unusual: a gate that refuses it would refuse honest work.",
        signal="It is measured, and none of its claims is rejected.",
        implementations={"rmsnorm": load, "extreme-rmsnorm": load}, devices=devices, in_place=in_place,
        kernels={"rmsnorm": kernel, "extreme-rmsnorm": kernel} if kernel else None,
    )  # fmt: skip


BOUND = "what names stand for is compared with what it was, in the measuring modules, torch and Python alike."
NOTED = "Python tells of it by an audit event, and a hook that cannot be removed notes it for the parent process."
STOCK = "hooks, handlers and timers are looked at when the clock stops, before any code can run again."
LOCALISED = "inputs that nobody announced carry their answer in few elements at random places."
MENDED = (
    "one element changes between two calls at the same address; and after each cold call nearly all values change "
    "places, so that there is nothing to mend."
)
PUT_BACK = "settings of the process are put back before another profile runs."
ALONE = "threads and children of a profile may not work while another is timed."
OUTSIDE = "the threads of a profile may not work more between its calls than in them."
KERNEL = "which calls are checked is drawn from the operating system, after they have run."

REACHING = (
    cheat("patched-send", "Replaces the function that sends records, when it is loaded.", BOUND, reaching.patched_send),
    cheat("patched-send-later", "The same, once the checks are over.", BOUND, reaching.patched_send_later),
    cheat("patched-json", "Replaces json.dumps, through which records go.", BOUND, reaching.patched_json),
    cheat("patched-write", "Replaces os.write, through which frames go.", BOUND, reaching.patched_write),
    cheat("own-samples", "Halves its own samples through its callers' frames.", NOTED, reaching.own_samples),
    cheat("rivals-samples", "Doubles its rival's samples through a traceback's frames.", NOTED,
          reaching.rivals_samples),
    cheat("samples-by-generator", "Reaches its callers' frames from a generator's.", NOTED,
          reaching.samples_by_generator),
    cheat("samples-by-thread-frames", "Reaches the protocol by the frames of all threads.", NOTED,
          reaching.samples_by_thread_frames),
    cheat("samples-by-search", "Finds its rival's samples among all objects.", NOTED, reaching.samples_by_search),
    cheat("rewritten-function", "Gives a function of the judge another body.", NOTED, reaching.rewritten_function),
    cheat("patched-draws", "Has one call of each block checked that it knows; half of the others is never written.",
          BOUND, reaching.patched_draws),
    cheat("patched-random-source", "The same, by Python's sources of random numbers.", KERNEL,
          reaching.patched_random_source),
)  # fmt: skip
FINISHING_LATER = (
    cheat("finished-by-profile-hook", "Finishes in a profile hook, after the clock's own call.", STOCK,
          finishing_later.by_profile_hook),
    cheat("finished-by-trace-hook", "Finishes in a trace hook.", STOCK, finishing_later.by_trace_hook),
    cheat("finished-by-signal", "Finishes in the handler of a timer's signal, which then goes.", STOCK,
          finishing_later.by_signal),
    cheat("finished-by-collector", "Finishes when garbage is collected.", STOCK, finishing_later.by_collector),
    cheat("finished-by-thread", "Finishes in a thread of each call, and has threads take turns at once.", STOCK,
          finishing_later.by_thread),
    cheat("finished-by-patient-thread", "Finishes in a thread of each call, which waits for its turn.", OUTSIDE,
          finishing_later.by_patient_thread),
    cheat("finished-by-waiting-thread", "Finishes in a thread that it keeps.", OUTSIDE,
          finishing_later.by_waiting_thread),
)  # fmt: skip
SHARED = (
    cheat("slowed-lookup", "Slows F.rms_norm down when it is loaded, and has the real one for itself.", BOUND,
          shared_state.slowed_lookup),
    cheat("slowed-lookup-later", "The same, in each of its calls.", BOUND, shared_state.slowed_lookup_later),
    cheat("slowed-module", "Gives its rival's module another torch.nn.functional.", BOUND, shared_state.slowed_module),
    cheat("hidden-built-in", "Puts a `round` that halves into the measuring modules.", BOUND,
          shared_state.hidden_built_in),
    cheat("constant-inputs", "Replaces torch.randn, so that all inputs are one, and remembers their result.", BOUND,
          shared_state.constant_inputs),
    cheat("constant-places", "Replaces torch.randint, so that fresh values are the old ones.", BOUND,
          shared_state.constant_places),
    cheat("working-thread", "Leaves a thread at work beside its rivals.", ALONE, shared_state.working_thread),
    cheat("working-child", "Leaves a child process at work beside its rivals.", ALONE, shared_state.working_child),
)  # fmt: skip
LEAVING_OUT = (
    cheat("sampled-stretch", "Remembers by address; samples every 512th element and mends what changed.", MENDED,
          leaving_out.sampled_stretch),
    cheat("sampled-from-the-middle", "The same, with other samples.", MENDED,
          leaving_out.sampled_stretch_from_the_middle),
    cheat("first-quarter", "Takes a wide row's mean from its first quarter.", LOCALISED, leaving_out.first_quarter,
          op="wide-rmsnorm"),
    cheat("every-fourth-column", "Takes a wide row's mean from every fourth element.", LOCALISED,
          leaving_out.every_fourth_column, op="wide-rmsnorm"),
    cheat("assumed-norm", "Takes it for granted that a wide row's mean square is 1.", LOCALISED,
          leaving_out.assumed_norm, op="wide-rmsnorm"),
    cheat("clipped", "Clips what ordinary numbers never reach.", LOCALISED, leaving_out.clipped),
)  # fmt: skip
# Honest code leaves the same traces as these: they are not rejected, and must gain nothing.
IN_VAIN = (
    cheat("many-threads-for-others", "Leaves torch more threads than cores, and keeps the right number for itself.",
          PUT_BACK, shared_state.many_threads_for_others, CPU),
    cheat("one-core-for-others", "Leaves the process one core, and takes all for itself.", PUT_BACK,
          shared_state.one_core_for_others, CPU),
)  # fmt: skip
NEW_CHEATS = REACHING + FINISHING_LATER + SHARED + LEAVING_OUT
NEW_HONEST = (
    honest("thread-pool", "Splits its rows over two threads that it keeps.", oddities.thread_pool, CPU),
    honest("waiting-child", "Keeps a child process that waits.", oddities.waiting_child),
    honest("one-thread", "Sets torch to one thread.", oddities.one_thread),
    honest("high-precision", "Sets the precision of matrix products.", oddities.high_precision),
    honest("set-when-loaded", "Changes settings when it is loaded.", oddities.set_when_loaded),
    honest("own-variable", "Sets a variable of the environment.", oddities.own_variable),
    honest("logging", "Logs each call.", oddities.logging_norm),
    honest("warning", "Warns in each call.", oddities.warning_norm),
    honest("time-limit", "Sets an alarm, and takes it back, in each call.", oddities.time_limit),
    honest("collecting", "Collects garbage in each call.", oddities.collecting),
    honest("own-numbers", "Draws random numbers of its own.", oddities.own_numbers),
    honest("looked-over", "Samples every 512th element for NaN, and computes in full.", oddities.looked_over, CPU),
    honest("in-quarters", "Takes the mean of four means.", oddities.in_quarters),
    honest("weak-scratch", "Keeps scratch memory by weak references.", oddities.weak_scratch),
    honest("own-types", "Makes a class and reads its source when loaded.", oddities.own_types),
)  # fmt: skip
