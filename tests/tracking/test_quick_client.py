"""Which requests go straight to a server, and that MLflow's own client sends them where it knows more."""

from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from lab.tracking.quick_client import QuickClient, client_of

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "MLFLOW_WORKSPACE", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


def test_a_server_that_is_plainly_given_gets_the_quick_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "lab")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
    assert type(client_of(NOWHERE)) is QuickClient


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REQUESTS_CA_BUNDLE", "/etc/ssl/company.pem"),
        ("MLFLOW_WORKSPACE", "kernels"),
        ("MLFLOW_TRACKING_PASSWORD", "pä€"),
        ("MLFLOW_TRACKING_AWS_SIGV4", "true"),
    ],
)
def test_what_only_mlflow_knows_is_left_to_its_client(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "lab")
    monkeypatch.setenv(name, value)
    assert type(client_of(NOWHERE.replace("http:", "https:"))) is MlflowClient


def test_a_login_in_netrc_is_left_to_mlflow(tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login lab password secret\n")
    assert type(client_of(NOWHERE)) is MlflowClient


def test_a_server_that_is_down_raises_mlflows_error() -> None:
    with pytest.raises(MlflowException, match="runs/create failed"):
        client_of(NOWHERE).create_run("0")
