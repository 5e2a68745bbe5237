"""The authority of a cluster: makes tokens, and takes nodes in that have one.

Lives on the node that ran `leveret cluster init`. Its book, authority.json, has the tokens (hashed), which nodes it
signed for, and the next number of a node, so that none is given twice. A token is for one node unless it is made for
more; a node whose answer was lost may use it again until it ends, because its key is recognised. A key that is known
gets the number it has: so a certificate is renewed. Every call may block; a lock keeps commands and a running node from
each other's way."""

from __future__ import annotations

import datetime
import hmac
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
from cryptography import x509

from leveret.cluster.links.address import Address, parse_address
from leveret.cluster.links.hello import NODE_MAX
from leveret.cluster.members.certificates import (
    certificate_pem,
    fingerprint,
    key_id,
    key_pem,
    make_authority,
    make_key,
    make_request,
    read_certificate,
    read_key,
    read_request,
    sign_node,
)
from leveret.cluster.members.credentials import (
    Files,
    IdentityFile,
    check_names,
    own_key,
    read_identity,
    write_certificates,
    write_identity,
)
from leveret.cluster.members.join_messages import Joined, JoinRequest
from leveret.cluster.members.token import ID_BYTES, LIFE_S, SECRET_BYTES, Token, secret_hash
from leveret.errors import ClusterError, ConfigError, JoinRefused, StartupError
from leveret.runtime.files import locked, replace_file
from leveret.runtime.log import get_logger
from leveret.runtime.secret import Secret

log = get_logger(__name__)

TOKENS_MAX = 100
USES_MAX = 100
LIFE_S_MAX = 7 * LIFE_S
LOCK_DEADLINE_S = 5.0
NOT_VALID = "the token is not known here, was used, or has ended; make a new one with `leveret cluster token`"


class StoredToken(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    hash: str
    ends_at: int
    uses_left: int
    # Keys that have used it.
    keys: list[str] = []


class StoredNode(msgspec.Struct, forbid_unknown_fields=True):
    node: int
    name: str
    address: str


class Book(msgspec.Struct, forbid_unknown_fields=True):
    """authority.json"""

    next_node: int
    # By the ids of their keys.
    nodes: dict[str, StoredNode] = {}
    tokens: list[StoredToken] = []
    version: int = 1


def _moment(now: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(now, datetime.UTC)


def init_cluster(
    files: Files, cluster_name: str, node_name: str, address: Address, salt: Callable[[int], bytes], now: float
) -> IdentityFile:
    """A new cluster with this node as its first, number 1. Raises ClusterError if there is one already."""
    found = read_identity(files)
    if found is not None:
        raise ClusterError(
            f"{files.directory} belongs to node {found.node} ({found.node_name}) of the cluster {found.cluster_name!r} "
            "already; to give it up, stop the node and remove that directory"
        )
    check_names(cluster_name, node_name)
    cluster = salt(16)
    key, authority_key = own_key(files), make_key()
    authority = make_authority(cluster_name, authority_key, _moment(now))
    request = read_request(make_request(node_name, key))
    certificate = sign_node(authority, authority_key, request, cluster, 1, node_name, _moment(now))
    replace_file(files.authority_key, key_pem(authority_key))
    book = Book(next_node=2, nodes={key_id(request): StoredNode(1, node_name, str(address))})
    replace_file(files.authority_book, msgspec.json.encode(book))
    write_certificates(files, certificate_pem(certificate), certificate_pem(authority))
    identity = IdentityFile(cluster.hex(), cluster_name, 1, node_name, str(address))
    write_identity(files, identity)
    return identity


class Authority:
    def __init__(self, files: Files) -> None:
        """Raises StartupError if this node does not have the authority."""
        self._files = files
        identity = read_identity(files)
        if identity is None or not files.authority_key.exists():
            raise StartupError(
                f"{files.directory} does not have the authority of a cluster; it is on the node that ran "
                "`leveret cluster init`"
            )
        self.identity = identity
        try:
            self._certificate = read_certificate(files.authority.read_bytes())
            self._key = read_key(files.authority_key.read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise StartupError(f"the authority in {files.directory} cannot be read: {error}") from None
        # When somebody could last join, by the book as it was read at that time.
        self._seen: tuple[int, int] | None = None
        self._open_until = 0

    @property
    def pem(self) -> bytes:
        return certificate_pem(self._certificate)

    def make_token(
        self, address: Address, salt: Callable[[int], bytes], now: float, uses: int = 1, life_s: int = LIFE_S
    ) -> Token:
        """Raises ClusterError if too many are open."""
        assert 0 < uses <= USES_MAX and 0 < life_s <= LIFE_S_MAX, f"{uses} uses, {life_s} s"
        token_id, secret, ends_at = salt(ID_BYTES), salt(SECRET_BYTES), int(now) + life_s
        with self._changing(now) as book:
            if len(book.tokens) >= TOKENS_MAX:
                raise ClusterError(f"{TOKENS_MAX} tokens are open; wait until some of them end, or revoke them")
            book.tokens.append(StoredToken(token_id.hex(), secret_hash(secret), ends_at, uses))
        return Token(fingerprint(self._certificate), token_id, Secret(secret.hex()), ends_at, address)

    def revoke_tokens(self, now: float) -> int:
        """All that are open; how many that were."""
        with self._changing(now) as book:
            count = len(book.tokens)
            book.tokens.clear()
        return count

    def is_open(self, now: float) -> bool:
        """Whether somebody could join; looks at the book only if it has changed."""
        try:
            stat = self._files.authority_book.stat()
        except OSError:
            return False
        seen = stat.st_mtime_ns, stat.st_ino
        if seen != self._seen:
            self._seen = seen
            try:
                self._open_until = max((token.ends_at for token in self._read().tokens), default=0)
            except StartupError as error:
                log.warning("nobody can join", error=str(error))
                self._open_until = 0
        return now < self._open_until

    def admit(self, wanted: JoinRequest, now: float) -> Joined:
        """Signs for a node that has a token. Raises JoinRefused."""
        try:
            request = read_request(wanted.request)
            check_names(self.identity.cluster_name, wanted.node_name)
            address = parse_address(wanted.address)
        except (ValueError, ConfigError) as error:
            raise JoinRefused(f"the request cannot be used: {error}") from None
        key = key_id(request)
        with self._changing(now) as book:
            self._use_token(book, wanted, key)
            node = self._number(book, key)
            book.nodes[key] = StoredNode(node, wanted.node_name, str(address))
            seeds = tuple(other.address for other in book.nodes.values() if other.node != node)
        return Joined(
            self.identity.cluster, self.identity.cluster_name, node, self._sign(request, node, wanted.node_name, now),
            self.pem, seeds,
        )  # fmt: skip

    def renew_own(self, now: float) -> datetime.datetime:
        """A new certificate for this node itself; when it ends."""
        request = read_request(make_request(self.identity.node_name, own_key(self._files)))
        certificate = self._sign(request, self.identity.node, self.identity.node_name, now)
        write_certificates(self._files, certificate, self.pem)
        return read_certificate(certificate).not_valid_after_utc

    def _sign(self, request: x509.CertificateSigningRequest, node: int, name: str, now: float) -> bytes:
        cluster = bytes.fromhex(self.identity.cluster)
        return certificate_pem(sign_node(self._certificate, self._key, request, cluster, node, name, _moment(now)))

    @staticmethod
    def _use_token(book: Book, wanted: JoinRequest, key: str) -> None:
        """Expired tokens are not in the book any more."""
        try:
            offered = secret_hash(bytes.fromhex(wanted.secret))
        except ValueError:
            raise JoinRefused(NOT_VALID) from None
        token = next((token for token in book.tokens if token.id == wanted.token), None)
        if token is None or not hmac.compare_digest(token.hash, offered):
            raise JoinRefused(NOT_VALID)
        if key in token.keys:
            return
        if token.uses_left < 1:
            raise JoinRefused(NOT_VALID)
        token.uses_left -= 1
        token.keys.append(key)

    @staticmethod
    def _number(book: Book, key: str) -> int:
        known = book.nodes.get(key)
        if known is not None:
            return known.node
        if book.next_node > NODE_MAX:
            raise JoinRefused("all numbers of nodes have been given")
        book.next_node += 1
        return book.next_node - 1

    # ---- the book

    def _read(self) -> Book:
        try:
            return msgspec.json.decode(self._files.authority_book.read_bytes(), type=Book)
        except (OSError, ValueError) as error:
            raise StartupError(
                f"{self._files.authority_book} cannot be read: {error}; restore it from a backup"
            ) from None

    @contextmanager
    def _changing(self, now: float) -> Iterator[Book]:
        """The book, without tokens that have ended; written when the caller is done without an error."""
        try:
            with locked(self._files.authority_lock, LOCK_DEADLINE_S):
                book = self._read()
                book.tokens = [token for token in book.tokens if now < token.ends_at]
                yield book
                replace_file(self._files.authority_book, msgspec.json.encode(book))
        except BlockingIOError:
            raise ClusterError(f"{self._files.authority_lock} is held by another process; try again") from None
