"""A store of MLflow's that is made once, for all tests to copy."""

from pathlib import Path

import pytest
from mlflow import MlflowClient


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database without experiments: making one takes over a second, copying it nothing."""
    database = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{database}").delete_experiment("0")
    return database
