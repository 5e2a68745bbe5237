"""A node's credentials on disk, in `<data>/cluster`: who it is, its key and certificate, the cluster's authority.

All files are readable by their owner alone and written so that a crash leaves the old or the new one. identity.json is
written last: without it there are no credentials. Every call may block."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

import msgspec

from leveret.cluster.links.handshake import Identity, proven_by
from leveret.cluster.links.hello import CLUSTER_BYTES, NODE_MAX
from leveret.cluster.members.certificates import (
    Key,
    certificate_pem,
    fits,
    key_pem,
    make_key,
    read_certificate,
    read_key,
)
from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.errors import StartupError
from leveret.runtime.certificate import read_certificates
from leveret.runtime.files import replace_file
from leveret.runtime.peers.tls_files import TlsFiles

DIRECTORY = "cluster"
HINT = "run `leveret cluster init` for a new cluster, or `leveret cluster join TOKEN` for an existing one"


class IdentityFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """identity.json"""

    cluster: str
    cluster_name: str
    node: int
    node_name: str
    # Where other nodes reach this one.
    address: str
    # Addresses of members as of the join, to find the others by.
    seeds: tuple[str, ...] = ()
    version: int = 1


@dataclass(frozen=True, slots=True)
class Files:
    """Where everything is."""

    directory: Path

    @classmethod
    def of(cls, data_dir: Path) -> Files:
        return cls(data_dir / DIRECTORY)

    @property
    def identity(self) -> Path:
        return self.directory / "identity.json"

    @property
    def incarnation(self) -> Path:
        return self.directory / "incarnation"

    @property
    def key(self) -> Path:
        return self.directory / "node.key"

    @property
    def certificate(self) -> Path:
        return self.directory / "node.pem"

    @property
    def authority(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def authority_key(self) -> Path:
        return self.directory / "ca.key"

    @property
    def authority_book(self) -> Path:
        return self.directory / "authority.json"

    @property
    def authority_lock(self) -> Path:
        return self.directory / "authority.lock"

    @property
    def tls(self) -> TlsFiles:
        return TlsFiles(self.certificate, self.key, self.authority)

    def make_directory(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def check_names(cluster_name: str, node_name: str) -> None:
    """Raises ValueError."""
    for what, name in (("cluster", cluster_name), ("node", node_name)):
        if not name or not name.isprintable() or len(name.encode()) > NAME_OCTETS_MAX:
            raise ValueError(
                f"the name of a {what} has 1 to {NAME_OCTETS_MAX} octets that can be seen, not {name[:99]!r}"
            )


def read_identity(files: Files) -> IdentityFile | None:
    """None if this node belongs to no cluster. Raises StartupError if the file is not as it should be."""
    try:
        octets = files.identity.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StartupError(f"cannot read {files.identity}: {error.strerror}") from None
    try:
        identity = msgspec.json.decode(octets, type=IdentityFile)
        if len(bytes.fromhex(identity.cluster)) != CLUSTER_BYTES or not 0 < identity.node <= NODE_MAX:
            raise ValueError(f"cluster {identity.cluster!r}, node {identity.node}")
        check_names(identity.cluster_name, identity.node_name)
    except ValueError as error:
        raise StartupError(f"{files.identity} cannot be used: {error}; restore it from a backup, or {HINT}") from None
    return identity


def write_identity(files: Files, identity: IdentityFile) -> None:
    replace_file(files.identity, msgspec.json.format(msgspec.json.encode(identity), indent=2) + b"\n")


def own_key(files: Files) -> Key:
    """The key of this node: that of an earlier join or of one that was not finished, or a new one. It never leaves this
    directory. Raises StartupError."""
    files.make_directory()
    try:
        return read_key(files.key.read_bytes())
    except FileNotFoundError:
        pass
    except (OSError, ValueError, TypeError) as error:
        raise StartupError(f"{files.key} is no key that can be used: {error}; remove it, then {HINT}") from None
    key = make_key()
    replace_file(files.key, key_pem(key))
    return key


def write_certificates(files: Files, certificate: bytes, authority: bytes) -> None:
    replace_file(files.certificate, certificate)
    replace_file(files.authority, authority)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a node needs for its links."""

    files: Files
    identity: IdentityFile
    not_after: datetime.datetime

    def in_this_life(self, now_ms: int) -> Identity:
        """Begins a new incarnation, larger than every one before, even if the clock or the disk goes back."""
        try:
            before = int(self.files.incarnation.read_text())
        except FileNotFoundError:
            before = 0
        except (OSError, ValueError) as error:
            raise StartupError(f"{self.files.incarnation} cannot be used: {error}; remove it") from None
        incarnation = max(before + 1, now_ms)
        replace_file(self.files.incarnation, f"{incarnation}\n".encode())
        cluster = bytes.fromhex(self.identity.cluster)
        return Identity(cluster, self.identity.node, incarnation, self.identity.node_name)


def load_credentials(files: Files) -> Credentials:
    """Raises StartupError with what to do if anything is missing or does not fit."""
    identity = read_identity(files)
    if identity is None:
        raise StartupError(f"{files.directory} has no credentials of a cluster; {HINT}")
    try:
        certificate = read_certificate(files.certificate.read_bytes())
        authority = read_certificate(files.authority.read_bytes())
        key = read_key(files.key.read_bytes())
        proven = proven_by(read_certificates(certificate_pem(certificate))[0].login_name("san_uri"))
    except (OSError, ValueError, TypeError) as error:
        raise StartupError(f"the credentials in {files.directory} cannot be read: {error}; {HINT}") from None
    if not fits(certificate, key, authority) or not proven.fits(bytes.fromhex(identity.cluster), identity.node):
        raise StartupError(
            f"the files in {files.directory} do not fit each other; restore them from one backup, or join again"
        )
    return Credentials(files, identity, certificate.not_valid_after_utc)
