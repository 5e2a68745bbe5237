"""How the node's log looks: one line an event on standard error, with the time in UTC."""

from __future__ import annotations

import logging
import sys
import time


def configure_logs(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logger = logging.getLogger("leveret")
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
