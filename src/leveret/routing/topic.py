"""The topic exchange: binding keys are patterns of words. Registered in registry.py.

RabbitMQ takes any binding key, and so does this: the trie's work is bounded whatever the pattern."""

from __future__ import annotations

from typing import Any

from leveret.core.matching.matcher import Matcher
from leveret.core.matching.topic_trie import TopicMatcher
from leveret.routing.exchange_type import ExchangeType, Pick

__all__ = ["Topic"]


class Topic(ExchangeType):
    name = "topic"
    description = "AMQP topic exchange, as per the AMQP specification"

    def matcher(self, arguments: dict[str, Any], pick: Pick) -> Matcher:
        return TopicMatcher()
