"""Getting a document from elsewhere: over TLS that is checked, of bounded size, within a bounded time.

No redirects, no proxies of the environment, no compression: what comes is what was asked for, or an error."""

from __future__ import annotations

import re
import ssl

# Only this machine is asked without TLS.
_ALLOWED = re.compile(r"https://[^/\s]|http://(127\.0\.0\.1|\[::1\]|localhost)[:/]")


class FetchError(Exception):
    """Why there is no document; never quotes what came."""


async def fetch(url: str, ca: str, bytes_max: int, deadline_s: float) -> bytes:
    """`ca` is a file with the authority that must have signed the server's certificate, empty for the system's."""
    # Not at the top: few brokers fetch anything, and it takes long to import.
    import aiohttp

    if _ALLOWED.match(url) is None:
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
