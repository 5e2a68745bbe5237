"""TLS of a node: which settings need a certificate, what `leveret serve` says of it, and new files with SIGHUP."""

from __future__ import annotations

import shutil
import signal
import ssl
import time
from pathlib import Path

import pytest

from leveret.errors import ConfigError
from leveret.node.certificates import load_certificates, tls_options
from leveret.node.config.network import ListenSettings, TlsSettings
from leveret.node.config.settings import Settings
from leveret.runtime.secret import Secret
from tests.conformance.authority import Authority, Papers
from tests.conformance.raw_client import RawClient
from tests.unit.node.process import finished, serving


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def configuration(directory: Path, papers: Papers) -> Path:
    file = directory / "leveret.toml"
    tls = f'[tls]\ncertificate = "{papers.certificate}"\nkey = "{papers.key}"\n'
    file.write_text(f"[listen]\ntls_port = 0\nstream_tls_port = 0\n{tls}")
    return file


def test_every_option_is_passed_on() -> None:
    chosen = TlsSettings(
        certificate="a", key="b", key_password=Secret("c"), ca="d", verify="optional", version_min="1.3", ciphers="e"
    )
    options = tls_options(chosen)
    for name in TlsSettings.__struct_fields__:
        assert getattr(options, name) == getattr(chosen, name)


@pytest.mark.parametrize(
    "listen",
    [
        ListenSettings(tls_port=0),
        ListenSettings(stream_tls_port=0),
        ListenSettings(management_tls=True),
        ListenSettings(metrics_tls=True),
    ],
)
def test_whoever_speaks_tls_needs_a_certificate(listen: ListenSettings, authority: Authority) -> None:
    papers = authority.server()
    tls = TlsSettings(certificate=str(papers.certificate), key=str(papers.key))
    assert load_certificates(Settings(listen=ListenSettings(), tls=tls)) is None
    loaded = load_certificates(Settings(listen=listen, tls=tls))
    assert loaded is not None and loaded.context.verify_mode == ssl.CERT_NONE
    with pytest.raises(ConfigError, match=r"tls\.certificate is empty"):
        load_certificates(Settings(listen=listen))


def test_serve_says_where_it_speaks_tls_and_takes_new_files_with_sighup(tmp_path: Path, authority: Authority) -> None:
    papers, newer = authority.server(), authority.server("newer")
    arguments = ("--data-dir", str(tmp_path / "data"), "--config", str(configuration(tmp_path, papers)))
    with serving(*arguments) as server:
        said = [line for line in server.announced if line.startswith("  with TLS    ")]
        assert [line.rsplit(":", 1)[0] for line in said] == [
            "  with TLS    amqps://127.0.0.1",
            "  with TLS    rabbitmq-stream+tls://127.0.0.1",
        ]
        port = int(said[0].rsplit(":", 1)[1])

        def shown() -> bytes | None:
            with RawClient("127.0.0.1", port, authority.context()) as client:
                assert isinstance(client.socket, ssl.SSLSocket)
                return client.socket.getpeercert(binary_form=True)

        with RawClient("127.0.0.1", port, authority.context()) as old:
            old.log_in().open_channel(1)
            assert shown() == papers.der
            for new_file, file in zip(newer, papers, strict=True):
                shutil.copy(new_file, file)
            server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 10
            while shown() != newer.der:
                assert time.monotonic() < deadline, "the new certificate is not shown"
                time.sleep(0.02)
            # Bad files are not taken.
            papers.certificate.write_text("nothing")
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.3)
            assert shown() == newer.der
            old.call(1, "queue.declare", queue="q")
        server.process.send_signal(signal.SIGTERM)
        assert f"tls.certificate: {papers.certificate} has no certificate in PEM" in server.errors()


def test_a_bad_certificate_ends_the_start_with_one_line(tmp_path: Path, authority: Authority) -> None:
    papers = Papers(authority.server().certificate, authority.server("other").key)
    done = finished("serve", "--data-dir", str(tmp_path / "data"), "--config", str(configuration(tmp_path, papers)))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"tls.key: {papers.key} is not the key of {papers.certificate}" in done.stderr
