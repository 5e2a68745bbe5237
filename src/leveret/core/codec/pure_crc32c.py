"""The interpreted twin of crc32c.pxd, by Google's library. Imported only by core modules that run uncompiled."""

from google_crc32c import extend


def crc32c(crc, p, start, end):
    """Goes on from `crc` over p[start:end]."""
    return extend(crc, bytes(p[start:end]))
