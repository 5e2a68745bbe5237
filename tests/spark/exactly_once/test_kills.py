"""Each message once, whatever is killed: a super stream into the lake and the lake into a stream, and the jobs archive,
analytics and deadletters side by side, under `kill -9` of driver, executors and broker.

`LEVERET_PIPELINE_KILLS` says how many kills there are, `LEVERET_PIPELINE_SEED` which dice are thrown."""

from __future__ import annotations

import logging
import os
import random
from pathlib import Path
from typing import Final

import pytest

from tests.spark.exactly_once.campaign import Campaign
from tests.spark.exactly_once.places import FILES, JOBS

KILLS: Final = int(os.environ.get("LEVERET_PIPELINE_KILLS", "3"))
SEED: Final = int(os.environ.get("LEVERET_PIPELINE_SEED") or random.randrange(1_000_000))
# A driver that is killed takes a quarter of a minute to come back, on a busy machine.
SECONDS_PER_KILL: Final = 60

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + SECONDS_PER_KILL * KILLS)]


@pytest.mark.parametrize("pipeline", [FILES, JOBS])
def test_no_message_is_lost_or_doubled_by_kills(
    pipeline: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    # Whatever fails, this is in its report.
    logging.info("LEVERET_PIPELINE_SEED=%d LEVERET_PIPELINE_KILLS=%d", SEED, KILLS)
    campaign = Campaign(tmp_path, SEED, pipeline)
    try:
        verdict = campaign.run(KILLS)
    finally:
        campaign.close()
    logging.info("%s", verdict)
    assert verdict, f"LEVERET_PIPELINE_SEED={SEED} LEVERET_PIPELINE_KILLS={KILLS}\n{verdict}"
