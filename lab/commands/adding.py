"""How a group of commands is added to the command line."""

import argparse
from collections.abc import Callable

Command = Callable[[argparse.Namespace], int | None]  # an exit status, where it is not 0
Add = Callable[[str, Command, str], argparse.ArgumentParser]  # its name, what it does, and that in words
RUN = "a run id, or a run directory"
