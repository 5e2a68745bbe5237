"""What a node makes before it serves anybody: the definitions it was given as files, and on a fresh one the default
user and virtual host, as far as no file brought others."""

from __future__ import annotations

from pathlib import Path

from leveret.broker.broker import Broker
from leveret.broker.definitions import Defaults, DefinitionService, seed
from leveret.broker.users import UserService
from leveret.errors import InvalidDefinitions, StartupError
from leveret.node.config.settings import Settings
from leveret.operations.default_password import DefaultPassword

FILE_BYTES_MAX = 64 * 1024 * 1024


def prepare(broker: Broker, settings: Settings, fresh: bool) -> None:
    """Raises StartupError: a node with half of its definitions would surprise more than none."""
    auth = settings.auth
    defaults = Defaults(auth.default_user, auth.default_password.reveal(), auth.default_vhost) if fresh else None
    path = settings.definitions.path
    if path:
        service = DefinitionService(broker, UserService(broker))
        try:
            service.load_at_boot(read_sources(Path(path)), settings.definitions.skip_if_unchanged, defaults)
        except InvalidDefinitions as error:
            raise StartupError(f"the definitions in {path} cannot be imported: {error}") from None
    elif defaults is not None:
        seed(broker, defaults)
    password = auth.default_password
    DefaultPassword(broker).at_start(
        auth.default_user, password.reveal().encode("utf-8", "surrogatepass"), password.given, fresh
    )


def read_sources(path: Path) -> list[tuple[str, bytes]]:
    """Name and content of a file, or of every *.json of a directory in the order of their names."""
    try:
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        return [(file.name, _content(file)) for file in files]
    except OSError as error:
        raise StartupError(f"the definitions in {path} cannot be read: {error.strerror}") from None


def _content(file: Path) -> bytes:
    size = file.stat().st_size
    if size > FILE_BYTES_MAX:
        raise StartupError(f"the definitions in {file} have {size} bytes; at most {FILE_BYTES_MAX} are read")
    return file.read_bytes()
