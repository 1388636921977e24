"""Every error the lab raises on purpose; the command line prints these without a traceback.

LabError
├── DefinitionError   an experiment, claim or decision contradicts itself
├── PlanError         a run cannot be planned as ordered
├── RunError          a run directory is taken, finished, damaged or does not match
├── EvidenceError     a run may not be published, or published evidence was altered
├── StoreError        the tracking store is absent, unreachable, or not usable as it is
└── MissingPackage    a stage needs a package that this machine lacks
"""


class LabError(Exception):
    """A problem whose message tells the user what to do."""


class DefinitionError(LabError):
    pass


class PlanError(LabError):
    pass


class RunError(LabError):
    pass


class EvidenceError(LabError):
    pass


class StoreError(LabError):
    pass


class MissingPackage(LabError):
    pass
