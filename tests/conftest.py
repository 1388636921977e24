"""Triton without a GPU runs in its interpreter; tests marked `gpu` need `--gpu`."""

import os

import pytest


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


# Triton reads this when it is first imported, so it must stand before any test module is.
if not _has_gpu():
    os.environ["TRITON_INTERPRET"] = "1"


os.environ["LAB_TUNED"] = ""  # nor may what was tuned on this machine change what is tested


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="also run the tests marked gpu")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # A kernel that fails in Triton's interpreter leaves the interpreter's functions in the language, for good.
    items.sort(key=lambda item: "compiles" not in item.keywords)
    if config.getoption("--gpu"):
        return
    skip = pytest.mark.skip(reason="needs an NVIDIA GPU: give --gpu where there is one")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)
