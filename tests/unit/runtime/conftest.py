"""An authority, and doors with its certificate, for tests of TLS."""

from __future__ import annotations

import pytest

from tests.conformance.authority import Authority
from tests.unit.runtime.tls_pairs import Doors


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def doors(authority: Authority) -> Doors:
    return Doors(authority)
