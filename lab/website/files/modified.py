"""When a page last had something new to say: the end of the newest run that it shows, in its history too.

Of pages about more than one experiment, run or pair that is the newest of all.

Not when it was built: two builds of the same evidence are the same, and a new style is no news to who reads results.
"""

from collections.abc import Callable, Mapping

from lab.website.addresses import experiment_folder, short

OF_EXPERIMENTS, OF_RUNS, OF_PAIRS = "experiments", "runs", "compare"


def last_modified(experiments: Mapping[str, str], runs: Mapping[str, str]) -> Callable[[str], str]:
    """By path, a moment in UTC or, where nothing is measured yet, nothing.

    `experiments`: when the newest run of each one ended; `runs`: when each ended, by its digest.
    """
    of_experiments = {experiment_folder(name): finished for name, finished in experiments.items()}
    of_runs = {short(digest): finished for digest, finished in runs.items()}
    newest = max([*of_experiments.values(), *of_runs.values()], default="")

    def moment(path: str) -> str:
        kind, _, rest = path.partition("/")
        name = rest.partition("/")[0]
        if kind == OF_EXPERIMENTS and name in of_experiments:
            return of_experiments[name]
        if kind in (OF_RUNS, OF_PAIRS):
            held = [of_runs[each] for each in name.split("-") if each in of_runs]
            return max(held, default=newest)
        return newest

    return moment
