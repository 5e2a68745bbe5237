import os
import resource
import socket

from leveret.runtime.descriptors import descriptors_max, open_descriptors


def test_open_descriptors_are_counted() -> None:
    before = open_descriptors()
    assert before is not None and before >= 3
    with socket.socket(), open(os.devnull):
        assert open_descriptors() == before + 2
    assert open_descriptors() == before


def test_where_the_system_does_not_say() -> None:
    assert open_descriptors("/nowhere") is None


def test_the_limit_is_the_one_that_holds() -> None:
    assert descriptors_max() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
