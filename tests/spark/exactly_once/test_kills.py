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

# A few if nobody asks for more. The jobs take longer to come back, and the files have had one of each by then.
SHORT: Final = {FILES: 3, JOBS: 2}
KILLS: Final = {pipeline: int(os.environ.get("LEVERET_PIPELINE_KILLS", few)) for pipeline, few in SHORT.items()}
SEED: Final = int(os.environ.get("LEVERET_PIPELINE_SEED") or random.randrange(1_000_000))
# A driver that is killed takes half a minute to come back with all its jobs, and more on a busy machine.
SECONDS_PER_KILL: Final = 120

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + SECONDS_PER_KILL * max(KILLS.values()))]


@pytest.mark.parametrize("pipeline", KILLS)
def test_no_message_is_lost_or_doubled_by_kills(
    pipeline: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    # Whatever fails, this is in its report.
    dice = f"LEVERET_PIPELINE_SEED={SEED} LEVERET_PIPELINE_KILLS={KILLS[pipeline]}"
    logging.info("%s", dice)
    campaign = Campaign(tmp_path, SEED, pipeline)
    try:
        verdict = campaign.run(KILLS[pipeline])
    finally:
        campaign.close()
    logging.info("%s", verdict)
    assert verdict, f"{dice}\n{verdict}"
