"""A project of very many experiments, each of one case and two profiles, with evidence that never was measured.

A hundred experiments at a time are one published run.
"""

import os
import sys
from pathlib import Path

FOLDER, COUNT = Path(sys.argv[1]), int(sys.argv[2])
IN_A_RUN = 100
DEFINITIONS = f"from large_run import experiments\n\nEXPERIMENTS = experiments({COUNT}, 1, 2)\n"

if __name__ == "__main__":
    (FOLDER / "experiments" / "decisions").mkdir(parents=True)
    (FOLDER / "experiments" / "__init__.py").write_text(DEFINITIONS)
    (FOLDER / "pyproject.toml").write_text("[tool.kernel-evidence-lab]\n")
    os.environ["LAB_PROJECT"] = str(FOLDER)

    from large_run import experiments, write_large_run

    from lab.website.data.promoted import promote

    every = experiments(COUNT, 1, 2)
    for first in range(0, COUNT, IN_A_RUN):
        run = FOLDER / "runs" / f"run-{first // IN_A_RUN}"
        write_large_run(run, 3, every[first : first + IN_A_RUN])
        promote(run)
