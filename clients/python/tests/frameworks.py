"""What tests of an integration need beside the client: the framework, of whose absence they say something."""

import importlib.util
import os
import sys
import unittest
from pathlib import Path


def needs(package: str) -> None:
    """Leaves the calling module's tests out if a package is missing.

    In CI it must not be missing from the environment that `.ci/full` makes for these tests.
    """
    if importlib.util.find_spec(package) is not None:
        return
    missing = f"no package {package}: see examples/requirements.txt and tests/requirements.txt"
    if "CI" in os.environ and Path(sys.prefix).name == "clients-venv":
        raise AssertionError(missing)
    raise unittest.SkipTest(missing)
