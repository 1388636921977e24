"""Judged runs → MLflow, an index for browsing; the journal stays the truth."""
