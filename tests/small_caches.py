"""Workers in processes of their own flush a cache of 1 MiB: see small_cache/sitecustomize.py."""

import os
from pathlib import Path

from lab.evidence.source import ROOT

PLACE = Path(__file__).with_name("small_cache")
# The PYTHONPATH of a command line of this checkout whose workers do so.
PYTHONPATH = os.pathsep.join((str(PLACE), str(ROOT)))
