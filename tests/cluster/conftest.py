"""Credentials that tests of links share."""

from __future__ import annotations

import pytest

from leveret.cluster.members.credentials import Files
from tests.cluster.nodes import make_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> list[Files]:
    """Of three nodes."""
    return make_cluster(tmp_path_factory.mktemp("cluster"), 3)
