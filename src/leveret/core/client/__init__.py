"""The data plane of the client library: messages out and in, confirms and acknowledgements. Compiled like the rest of
core, and leaning on its codec alone, so that the client installs without the broker."""
