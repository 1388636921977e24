"""MLflow's client, whose requests for each cell go straight to the server, in the form of its documented REST API.

Before each request MLflow asks plugins for headers, the environment for proxies and files for a login, and turns what
is sent into protobuf and back: 4 ms of CPU time, which a thousand cells pay thousands of times.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import requests
from mlflow import MlflowClient
from mlflow.entities import DatasetInput, Metric, Param, Run, RunData, RunInfo
from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_MAX_RETRIES, MLFLOW_HTTP_REQUEST_TIMEOUT
from mlflow.exceptions import MlflowException
from mlflow.tracking.request_header.registry import resolve_request_headers
from mlflow.utils.credentials import get_default_host_creds
from mlflow.utils.rest_utils import verify_rest_response
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies, get_netrc_auth
from urllib3.util import Retry

from lab.tracking.whole_run import MANY_RUNS, SERVED, WholeRun

RUNS = "/api/2.0/mlflow/runs/"
ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"
LARGEST_BATCH, MOST_PARAMS = 1000, 100  # that a server takes at once
TRANSIENT = (408, 429, 500, 502, 503, 504)
CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
WORKSPACE = "MLFLOW_WORKSPACE"


def client_of(address: str) -> MlflowClient:
    """The quick client, or MLflow's own where certificates, login or workspace are given in another way."""
    login = get_default_host_creds(address)
    special = login.auth or login.aws_sigv4 or get_netrc_auth(address) or os.environ.get(WORKSPACE)
    certified = address.startswith("https:") and any(map(os.environ.get, CERTIFICATES))
    plain = all((part or "").isascii() for part in (login.username, login.password))
    return QuickClient(address) if plain and not special and not certified else MlflowClient(tracking_uri=address)


class Unreachable(MlflowException):
    """No answer came, after all tries."""


class QuickClient(MlflowClient):
    """Raises MlflowException, as MLflow's own client does."""

    def __init__(self, address: str) -> None:
        super().__init__(tracking_uri=address)
        self._address = address
        self._session = _session(address)
        self._artifact_uris: dict[str, str] = {}  # of the runs that were made here

    def create_run(
        self, experiment_id: str, start_time: int | None = None, tags: Mapping[str, Any] | None = None,
        run_name: str | None = None,
    ) -> Run:  # fmt: skip
        answer = self._post(
            "create",
            {
                "experiment_id": experiment_id, "start_time": start_time, "run_name": run_name, "user_id": "unknown",
                "tags": _pairs(tags or {}),
            },
        )  # fmt: skip
        created = answer["run"]["info"]
        info = RunInfo(
            run_id=created["run_id"], experiment_id=experiment_id, user_id="", status=created["status"],
            start_time=start_time or 0, end_time=None, lifecycle_stage=created["lifecycle_stage"],
            artifact_uri=created["artifact_uri"],
        )  # fmt: skip
        self._artifact_uris[info.run_id] = created["artifact_uri"]
        return Run(info, RunData())

    def log_batch(
        self, run_id: str, metrics: Sequence[Metric] = (), params: Sequence[Param] = (), *further: Any, **others: Any
    ) -> None:
        if further or others or len(metrics) + len(params) > LARGEST_BATCH or len(params) > MOST_PARAMS:
            super().log_batch(run_id, metrics, params, *further, **others)  # which sends several
            return
        points = [{"key": m.key, "value": m.value, "timestamp": m.timestamp, "step": m.step} for m in metrics]
        self._post("log-batch", {"run_id": run_id, "metrics": points, "params": [dict(param) for param in params]})

    def log_inputs(self, run_id: str, datasets: Sequence[DatasetInput] | None = None, models: Any = None) -> None:
        inputs = [
            {"tags": [dict(tag) for tag in each.tags], "dataset": {k: v for k, v in dict(each.dataset).items() if v}}
            for each in datasets or ()
        ]
        self._post("log-inputs", {"run_id": run_id, "datasets": inputs})

    def set_terminated(self, run_id: str, status: str | None = None, end_time: int | None = None) -> None:
        self._post("update", {"run_id": run_id, "status": status, "end_time": end_time})

    def log_text(self, run_id: str, text: str, artifact_file: str) -> None:
        scheme, _, path = self._artifact_uris.get(run_id, "").partition(":")
        if scheme != SERVED or path.startswith("//"):
            super().log_text(run_id, text, artifact_file)  # to a place that is not this server
            return
        endpoint = f"{ARTIFACTS}{path}/{artifact_file}"
        self._send("PUT", endpoint, data=text.encode())

    def takes_many_runs(self, experiment_id: str) -> bool:
        """Whether the server has the lab's app, and keeps the artifacts of this experiment itself."""
        empty = {"experiment_id": experiment_id, "runs": []}
        return bool(self._request("POST", MANY_RUNS, json=empty).status_code == 200)

    def create_many(self, experiment_id: str, runs: Sequence[tuple[WholeRun, Mapping[str, str]]]) -> None:
        """Runs with their texts. Sending them twice makes them once."""
        content = [{**dataclasses.asdict(run), "texts": texts} for run, texts in runs]
        self._send("POST", MANY_RUNS, json={"experiment_id": experiment_id, "runs": content})

    def _post(self, what: str, content: Mapping[str, Any]) -> Any:
        return self._send("POST", RUNS + what, json=content).json()

    def _send(self, method: str, endpoint: str, **content: Any) -> requests.Response:
        answer = self._request(method, endpoint, **content)
        verify_rest_response(answer, endpoint)  # raises where it is refused
        return answer

    def _request(self, method: str, endpoint: str, **content: Any) -> requests.Response:
        seconds = MLFLOW_HTTP_REQUEST_TIMEOUT.get()
        try:
            return self._session.request(method, f"{self._address}{endpoint}", timeout=seconds, **content)
        except requests.RequestException as problem:
            raise Unreachable(f"{method} {self._address}{endpoint} failed: {problem}") from problem


def _session(address: str) -> requests.Session:
    """With login, headers, certificates and proxies, which are looked up once."""
    login = get_default_host_creds(address)
    session = requests.Session()
    session.headers.update(resolve_request_headers())
    if login.username and login.password:
        session.auth = (login.username, login.password)
    elif login.token:
        session.headers["Authorization"] = f"Bearer {login.token}"
    session.proxies = get_environ_proxies(address)
    session.verify, session.cert = login.verify, login.client_cert_path
    session.trust_env = False
    retries = Retry(
        MLFLOW_HTTP_REQUEST_MAX_RETRIES.get(), backoff_factor=1, status_forcelist=TRANSIENT, allowed_methods=None
    )
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retries))
    return session


def _pairs(tags: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"key": key, "value": str(value)} for key, value in tags.items()]
