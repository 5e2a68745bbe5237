"""The section about links to other brokers."""

from typing import Annotated

from leveret.node.config.declaring import Section, said


class LinkSettings(Section, frozen=True):
    """[links] shovels and federation"""

    static_shovels: Annotated[
        str,
        said(
            "JSON file with shovels that this node runs beside those of the parameters; empty for none. It may hold "
            "passwords: let nobody else read it.",
            live=True,
        ),
    ] = ""
