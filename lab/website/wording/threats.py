"""The lab's threat model: what an author of a profile is held to have done, and what one could still do."""

HELD = (
    "A profile runs in the process that times it. What it may do there is whatever Python allows, so the lab does not "
    "trust that process alone: samples go to the parent process block by block and the record must hold those; an "
    "audit hook that cannot be removed tells the parent who looks at the frames, objects or code of others; hooks, "
    "signal handlers and timers are looked at by one C function together with the clock's stop, before other code can "
    "run; names in the measuring modules, torch, Triton and the authors' modules are compared before anybody else "
    "runs; settings of the process are put back; threads and children may not work beside others; checked calls are "
    "drawn from the operating system after they ran; and inputs include some that nobody announced."
)
STILL = (
    "Code below Python, such as a compiled extension that rewrites memory, the clock or the driver, is not noticed.",
    "An experiment's own module is trusted when it is imported: its operators make the inputs and say what is right.",
    "Code that passes itself off as a library's, by its module's name, is not noticed when it looks at frames.",
    "In scopes without a flush (warm and eager), only a stretch of an input changes before each call, so that a "
    "profile which finds the stretch and mends what it remembers gains; in the cold scope nearly all values move.",
    "A rival slowed by what is neither a name, a setting nor processor time, such as memory or caches worn out by "
    "design, is not measured a second time in a process of its own.",
    "A result within the operator's tolerance is right, however it was computed.",
)
