"""The journal and its records: what is appended, scanned, loaded, rebuilt and compacted. Holds octets; does no I/O."""
