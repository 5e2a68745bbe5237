"""One scrape: which families an endpoint shows, and their text, a piece at a time.

/metrics adds everything up, so that what Prometheus keeps does not grow with the broker. /metrics/per-object says it
for each queue, exchange, channel and connection; /metrics/detailed does so for the groups that are asked for, under
names of their own, so that both can be scraped."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from leveret.broker.compat import RABBITMQ_VERSION
from leveret.management.metrics.client_columns import CHANNEL_TABLES, CONNECTION_TABLES
from leveret.management.metrics.exposition import Family, family_text
from leveret.management.metrics.memory import memory_families
from leveret.management.metrics.node_families import GROUPS, node_families
from leveret.management.metrics.objects import Rows
from leveret.management.metrics.queue_columns import EXCHANGE_TABLES, QUEUE_TABLES, STREAM_TABLES, VHOST_TABLES
from leveret.management.metrics.source import Source
from leveret.management.metrics.sums import sum_up
from leveret.management.metrics.table import Column, Pace, Row, Table, write_columns
