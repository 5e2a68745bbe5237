"""The section about what clients and tools of RabbitMQ find here."""

from typing import Annotated, Literal

from leveret.node.config.declaring import Section, said


class CompatibilitySettings(Section, frozen=True):
    """[compatibility] compatibility with clients and tools of RabbitMQ"""

    product: Annotated[
        Literal["RabbitMQ", "Leveret"],
        said(
            "The product name announced by AMQP, streams, the HTTP API and metrics. RabbitMQ clients that "
            "check the name use all features only if they find it. For both products, `version` is the "
            "RabbitMQ version that Leveret is compatible with, and `leveret_version` Leveret's own."
        ),
    ] = "RabbitMQ"
