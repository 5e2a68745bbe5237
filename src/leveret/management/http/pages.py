"""The files of the user interface, as `make ui` has built them: read once, served from memory.

All but the first page have a digest of their contents in their names, so browsers keep them for good; the first page
has an ETag and is asked for each time. So a browser never mixes files of two versions."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "ui"
INDEX = "index.html"
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
COMPRESSED_FROM_BYTES = 1024
# Scripts, styles, pictures and requests of this origin, and nothing else; no inline code. Trusted Types let nothing but
# the worker's own address be made into code.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types leveret-worker",
    )
)
IMMUTABLE = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class PageFile:
    content_type: str
    body: bytes
    # None where compressing gains nothing.
    compressed: bytes | None
    etag: str


def read_pages(folder: Path = FOLDER) -> dict[str, PageFile]:
    """By their names; empty if the package was made without them."""
    if not folder.is_dir():
        return {}
    found = sorted(path for path in folder.iterdir() if path.suffix in CONTENT_TYPES)
    return {path.name: _page_file(path) for path in found}


def _page_file(path: Path) -> PageFile:
    body = path.read_bytes()
    compressed = gzip.compress(body, mtime=0) if len(body) >= COMPRESSED_FROM_BYTES else None
    if compressed is not None and len(compressed) >= len(body):
        compressed = None
    etag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    return PageFile(CONTENT_TYPES[path.suffix], body, compressed, etag)
