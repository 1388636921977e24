"""What a profile would have to replace in order to forge its time, or to pass for right."""

import _signal  # type: ignore[import-not-found]
import _thread
import builtins
import contextlib
import functools
import gc
import inspect
import json
import math
import operator
import os
import random
import re
import secrets
import select
import signal
import statistics
import struct
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterable
from types import ModuleType

import torch

from lab.evidence import codec, record
from lab.project import project
from lab.worker import (
    background_work,
    bindings,
    clock,
    compiled,
    correctness,
    cpu,
    deferred,
    device,
    faults,
    guard,
    hook_check,
    inductor,
    input_pool,
    launches,
    measure,
    profile_checks,
    ptx,
    reservoir,
    settings,
    stage_timer,
    sweep_case,
    tensors,
    unannounced,
)

ROOMS = (
    background_work, bindings, clock, codec, compiled, correctness, cpu, deferred, device, faults, guard, hook_check,
    inductor, input_pool, launches, measure, profile_checks, ptx, record, reservoir, settings, stage_timer, sweep_case,
    tensors, unannounced,
)  # fmt: skip
USED_OF = (builtins, gc, math, random, random.Random, random.SystemRandom, secrets, statistics, time, torch.Tensor)
OPERATORS = tuple(f"__{name}__" for name in ("eq", "or", "and", "mul", "add", "getitem", "bool", "float"))
# Whatever operators, rivals and the lab look up in them is to be what it was.
LIBRARIES = (
    _signal, _thread, builtins, contextlib, functools, gc, inspect, json, math, operator, os, random, re, secrets,
    select, signal, statistics, struct, sys, threading, time, traceback, weakref,
    torch, torch._C._nn, *device.LIBRARIES, torch.nn.functional, torch.Tensor, torch.Generator, torch.nn.Module,
    torch.nn.Parameter, torch.overrides, torch.utils._python_dispatch,
)  # fmt: skip
AUTHORS = ("experiments", project().experiments.name, "lab", "__main__", "triton")


def authors_modules() -> Iterable[ModuleType]:
    """The modules of experiments, kernels and the lab, and of Triton, as far as they are imported."""
    return [module for name, module in sorted(sys.modules.items()) if name.partition(".")[0] in AUTHORS]


def make_guard() -> guard.Guard:
    """To be made before anything of a profile's is imported."""
    named = [
        *((torch.Tensor, name) for name in OPERATORS),
        *((kind, "_randbelow") for kind in (random.Random, random.SystemRandom)),
    ]
    return guard.Guard([*device.WATCHED, *named, *guard.used(ROOMS, USED_OF)], ROOMS, LIBRARIES)
