"""Random histories of a stream's log on real files, with crashes, torn writes and damage, against a model."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.conftest import PURE
from tests.fuzz.effort import scaled
from tests.property.stream_model import StreamModel

STEPS = {
    "append": 30,
    "commit": 20,
    "store_offset": 8,
    "evidence": 4,
    "checkpoint": 3,
    "retain": 3,
    "restart": 2,
    "kill": 5,
    "lose_power": 10,
    "damage": 2,
}


@pytest.mark.parametrize("seed", range(scaled(8 if PURE else 24)))
def test_what_recovery_finds_is_what_the_model_has(tmp_path: Path, seed: int) -> None:
    dice = Random(seed)
    model = StreamModel(tmp_path, dice)
    told = []
    try:
        for step in dice.choices(list(STEPS), list(STEPS.values()), k=60):
            told.append(step)
            getattr(model, step)()
        model.lose_power()
        assert not model.bench.failures
    except AssertionError as error:
        error.add_note(f"seed {seed}, after {' '.join(told)}")
        raise
    finally:
        model.bench.close()
