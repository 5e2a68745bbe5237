"""All settings of a node. Made by leveret.node.config.loading, or directly in tests."""

import os
from typing import Annotated, Literal

from leveret.node.config.access import AuthSettings, DefinitionSettings, ManagementSettings
from leveret.node.config.compatibility import CompatibilitySettings
from leveret.node.config.declaring import Section, said
from leveret.node.config.keeping import (
    AlarmSettings,
    DeadLetterSettings,
    RoutingSettings,
    StorageSettings,
    StreamSettings,
)
from leveret.node.config.links import LinkSettings
from leveret.node.config.network import LimitSettings, ListenSettings, TlsSettings

SOCKET_NAME = "leveret.sock"


class Settings(Section, frozen=True):
    """names, data directory and log of the node"""

    data_dir: Annotated[
        str,
        said(
            "The data directory of this node; empty for `$XDG_DATA_HOME/leveret` or `~/.local/share/leveret`.",
            flag="--data-dir",
        ),
    ] = ""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        said("The minimum level that is logged.", live=True, flag="--log-level"),
    ] = "info"
    log_format: Annotated[
        Literal["text", "json"],
        said("Whether log lines are plain text or JSON.", flag="--log-format"),
    ] = "text"
    cluster_name: Annotated[str, said("Shown to clients and in the management API.")] = "leveret"
    node_name: Annotated[
        str, said("Shown to clients and in metrics; empty for `leveret@` and the name of the machine.")
    ] = ""
    listen: ListenSettings = ListenSettings()
    tls: TlsSettings = TlsSettings()
    limits: LimitSettings = LimitSettings()
    auth: AuthSettings = AuthSettings()
    routing: RoutingSettings = RoutingSettings()
    storage: StorageSettings = StorageSettings()
    streams: StreamSettings = StreamSettings()
    alarms: AlarmSettings = AlarmSettings()
    dead_letters: DeadLetterSettings = DeadLetterSettings()
    links: LinkSettings = LinkSettings()
    management: ManagementSettings = ManagementSettings()
    definitions: DefinitionSettings = DefinitionSettings()
    compatibility: CompatibilitySettings = CompatibilitySettings()

    @property
    def chosen_data_dir(self) -> str:
        return self.data_dir or default_data_dir()

    @property
    def chosen_node_name(self) -> str:
        return self.node_name or f"leveret@{os.uname().nodename.partition('.')[0] or 'localhost'}"

    @property
    def chosen_socket(self) -> str | None:
        """The path of the unix socket; None if there is to be none."""
        if self.listen.socket == "off":
            return None
        return self.listen.socket or os.path.join(self.chosen_data_dir, SOCKET_NAME)


def default_data_dir() -> str:
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(base, "leveret")
