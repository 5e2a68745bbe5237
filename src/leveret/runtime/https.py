"""Getting a document from elsewhere, and posting one: over TLS that is checked, of bounded size, within a bounded time.

No redirects, no proxies of the environment, no compression: what comes is what was asked for, or an error."""

from __future__ import annotations

import re
import ssl

# Only this machine is asked without TLS.
_ALLOWED = re.compile(r"https://[^/\s]|http://(127\.0\.0\.1|\[::1\]|localhost)[:/]")


class FetchError(Exception):
    """Why there is no document, or why one was not taken; never quotes what came. `status` is the answer's, 0 if there
    was none; `retry_after_s` what it asks for, 0 for nothing."""

    def __init__(self, text: str, status: int = 0, retry_after_s: float = 0.0) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after_s = retry_after_s


def is_allowed(url: str) -> bool:
    """Over TLS, or to this machine."""
    return _ALLOWED.match(url) is not None


async def fetch(url: str, ca: str, bytes_max: int, deadline_s: float) -> bytes:
    """`ca` is a file with the authority that must have signed the server's certificate, empty for the system's."""
    # Not at the top: few brokers fetch anything, and it takes long to import.
    import aiohttp

    if not is_allowed(url):
        raise FetchError("only https: is fetched")
    try:
        context = ssl.create_default_context(cafile=ca or None)
        timeout = aiohttp.ClientTimeout(total=deadline_s)
        async with (
            aiohttp.ClientSession(timeout=timeout, auto_decompress=False, trust_env=False) as session,
            session.get(url, ssl=context, allow_redirects=False, headers={"Accept-Encoding": "identity"}) as response,
        ):
            if response.status != 200:
                raise FetchError(f"the server answered with status {response.status}")
            document = bytearray()
            async for chunk in response.content.iter_chunked(65536):
                document += chunk
                if len(document) > bytes_max:
                    raise FetchError(f"the document has more than {bytes_max} bytes")
            return bytes(document)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise FetchError(f"{type(error).__name__}: {error}") from None


async def post(url: str, ca: str, body: bytes, headers: dict[str, str], deadline_s: float) -> None:
    """Raises FetchError unless the server takes it. What the server answers beside its status is not read."""
    import aiohttp

    if not is_allowed(url):
        raise FetchError("nothing is posted without TLS, but to this machine")
    try:
        context = ssl.create_default_context(cafile=ca or None)
        timeout = aiohttp.ClientTimeout(total=deadline_s)
        async with (
            aiohttp.ClientSession(timeout=timeout, auto_decompress=False, trust_env=False) as session,
            session.post(url, ssl=context, allow_redirects=False, data=body, headers=headers) as response,
        ):
            if not 200 <= response.status < 300:
                after_s = _seconds(response.headers.get("Retry-After", ""))
                raise FetchError(f"the server answered with status {response.status}", response.status, after_s)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        # Errors quote the address, which may have a token in it.
        raise FetchError(f"{type(error).__name__}: {str(error).replace(url, 'the address')}") from None


def _seconds(text: str) -> float:
    """Of a Retry-After in seconds; a date is passed over."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0.0
