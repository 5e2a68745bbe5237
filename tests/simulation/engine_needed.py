"""Whether the engine is here, and what a test does if it is not: skip on a machine without Rust, fail where it must be
there."""

from __future__ import annotations

import importlib.util
import os

import pytest

from leveret.cluster.consensus.engine import MISSING


def engine_marks() -> list[pytest.MarkDecorator]:
    """For `pytestmark` of a module that needs leveret_raft. .ci/run sets LEVERET_ENGINE=required: there nothing is
    skipped."""
    if importlib.util.find_spec("leveret_raft") is not None or os.environ.get("LEVERET_ENGINE") == "required":
        return []
    return [pytest.mark.skip(reason=f"{MISSING} (LEVERET_ENGINE=required makes this an error)")]
