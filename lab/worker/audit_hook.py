"""Reports suspicious Python audit events to the parent at once; no code in this process can take a report back.

An audit hook cannot be removed. Ours writes a note to the parent's pipe before the noted thing happens, so that code
which then rewrites this process is on record already. Noted is what gives code a hold of the frames, objects or
memory of others: no kernel needs it. The standard library and torch, which look at frames for their own sake, may.
"""

import json
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from lab.process.channel import HEADER

NOTED = {
    "sys._getframe": "looked at its callers' frames",
    "sys._current_frames": "looked at the frames of all threads",
    "sys._current_exceptions": "looked at the frames of all threads",
    "sys.setprofile": "set a profile hook",
    "sys.settrace": "set a trace hook",
    "sys.monitoring.register_callback": "set a monitoring hook",
    "sys.addaudithook": "added an audit hook",
    "gc.get_objects": "searched the process's objects",
    "gc.get_referrers": "searched the process's objects",
    "object.__setattr__": "rewrote a function",
    "object.__delattr__": "rewrote a function",
}
FRAMES = {"tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_back"}
LOOKED = "looked at its callers' frames"
REACHED = "called into Python's own memory"
OURS = ("lab.worker.", "lab.process.", "lab.supervisor.", "lab.evidence.", "lab.definition.", "lab.verdict.")
AUTHORS = ("experiments", "lab", "__main__")
THROUGH = ("inspect", "traceback")  # they look on behalf of whoever called them


def note(event: str, arguments: tuple[Any, ...]) -> str:
    """The tampering that an audit event shows, in words; empty if honest code causes such events."""
    if event == "object.__getattr__":
        return LOOKED if arguments[1] in FRAMES else ""
    if event == "ctypes.dlsym":
        return REACHED if str(arguments[1]).startswith(("Py", "_Py")) else ""
    if event.startswith("object.__") and arguments[1] not in ("__code__", "__defaults__", "__kwdefaults__"):
        return ""
    return NOTED.get(event, "")


def install(descriptor: int) -> None:
    """From now until the process ends, send a frame of kind "note" for each suspicious event."""
    sys.addaudithook(_hook(descriptor, os.write, sys._getframe, sys.modules))


def _hook(
    descriptor: int,
    write: Callable[[int, bytes], int],
    getframe: Callable[[int], FrameType],
    modules: dict[str, Any],
) -> Callable[[str, tuple[Any, ...]], None]:
    """Everything that it uses is bound here, where code that has not been noted cannot replace it."""
    frames = {words: _frame(words) for words in {*NOTED.values(), LOOKED, REACHED}}
    watched = frozenset({*NOTED, "object.__getattr__", "ctypes.dlsym"})
    words_of, trusted = note, _trusted
    busy: list[bool] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in watched or busy:
            return
        words = words_of(event, arguments)
        if not words:
            return
        busy.append(True)  # asking for the frame is an event itself
        try:
            if not trusted(getframe(1), modules):
                write(descriptor, frames[words])
        finally:
            busy.clear()

    return hook


def _trusted(frame: FrameType | None, modules: dict[str, Any]) -> bool:
    """Whether the code that asked is a library's or ours: by its module's own names, not by what it calls itself."""
    while frame and frame.f_globals.get("__name__") in THROUGH:
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__", "")) if frame else ""
    if name.partition(".")[0] in AUTHORS and not name.startswith(OURS):
        return False
    return frame is not None and getattr(modules.get(name), "__dict__", None) is frame.f_globals


def _frame(words: str) -> bytes:
    content = json.dumps({"kind": "note", "content": words}).encode()
    return HEADER.pack(len(content)) + content
