"""Builds this package with maturin, after writing Cargo.lock from pins.toml.

Called by pip and other tools as pyproject.toml says (PEP 517). The lock names the registry by its address, which has no
place in the repository; so what is kept is the list of names, versions and checksums, and the lock is made when it is
needed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lock_file

HERE = Path(__file__).resolve().parent.parent
NO_CARGO = (
    "leveret-raft is compiled with cargo, Rust 1.85 or newer, and there is no cargo here: on Debian 13 "
    "`apt-get install cargo`, on Debian 12 `apt-get install cargo-web rustc-web`, elsewhere install it with rustup"
)


def _prepare() -> Any:
    if shutil.which("cargo") is None:
        sys.exit(NO_CARGO)
    lock_file.write(HERE / "pins.toml", HERE / "Cargo.lock")
    # The scripts of the build environment are first in PATH, protoc among them.
    os.environ.setdefault("PROTOC", shutil.which("protoc") or "protoc")
    import maturin

    return maturin


def get_requires_for_build_wheel(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    return []


def get_requires_for_build_sdist(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    name: str = _prepare().prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    return name


def build_wheel(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    name: str = _prepare().build_wheel(wheel_directory, config_settings, metadata_directory)
    return name


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    name: str = _prepare().build_sdist(sdist_directory, config_settings)
    return name
