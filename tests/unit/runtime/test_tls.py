"""The node's certificate: what its context allows, what is wrong with files, and other files while it runs."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from leveret.errors import ConfigError
from leveret.runtime.certificate import Certificate
from leveret.runtime.secret import Secret
from leveret.runtime.tls import ServerCertificates, TlsOptions
from tests.conformance.authority import Authority, Papers


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def options(papers: Papers, **more: Any) -> TlsOptions:
    return TlsOptions(certificate=str(papers.certificate), key=str(papers.key), **more)


def meet(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A handshake in memory; raises what either side raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    done: set[ssl.SSLObject] = set()
    for _ in range(10):
        for each in (theirs, ours):
            try:
                each.do_handshake()
                done.add(each)
            except ssl.SSLWantReadError:
                pass
    assert len(done) == 2
    return ours, theirs


def test_the_context_is_strict(authority: Authority) -> None:
    context = ServerCertificates(options(authority.server())).context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_COMPRESSION
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.verify_mode == ssl.CERT_NONE
    for cipher in context.get_ciphers():
        assert cipher["aead"], cipher["name"]
        assert "DHE" in cipher["name"] or cipher["name"].startswith("TLS_"), cipher["name"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(authority: Authority, version: ssl.TLSVersion) -> None:
    papers, client = authority.server(), authority.context()
    client.maximum_version = version
    ours, _ = meet(ServerCertificates(options(papers)).context, client)
    assert ours.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]
    only_newest = ServerCertificates(options(papers, version_min="1.3")).context
    if version == ssl.TLSVersion.TLSv1_2:
        with pytest.raises(ssl.SSLError):
            meet(only_newest, client)
    else:
        meet(only_newest, client)


def test_chosen_ciphers(authority: Authority) -> None:
    chosen = ServerCertificates(options(authority.server(), ciphers="ECDHE-ECDSA-AES128-GCM-SHA256")).context
    client = authority.context()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    ours, _ = meet(chosen, client)
    cipher = ours.cipher()
    assert cipher is not None and cipher[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
    with pytest.raises(ConfigError, match=r"tls\.ciphers is 'NONSENSE'"):
        ServerCertificates(options(authority.server(), ciphers="NONSENSE"))


def test_the_key_may_be_in_the_same_file_and_encrypted(authority: Authority, tmp_path: Path) -> None:
    papers = authority.server()
    both = tmp_path / "both.pem"
    both.write_bytes(papers.certificate.read_bytes() + papers.key.read_bytes())
    meet(ServerCertificates(TlsOptions(certificate=str(both))).context, authority.context())

    key = serialization.load_pem_private_key(papers.key.read_bytes(), None)
    papers.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"open sesame"),
        )
    )
    made = options(papers, key_password=Secret("open sesame"))
    assert "sesame" not in repr(made)
    meet(ServerCertificates(made).context, authority.context())
    with pytest.raises(ConfigError, match="cannot be decrypted") as caught:
        ServerCertificates(options(papers, key_password=Secret("wrong sesame")))
    assert "sesame" not in str(caught.value)
    # Never asks at the terminal.
    with pytest.raises(ConfigError, match="is encrypted"):
        ServerCertificates(options(papers))


def test_what_is_wrong_is_told_with_the_file(authority: Authority, tmp_path: Path) -> None:
    papers, other = authority.server(), authority.server("other")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nothing of the kind")
    missing = tmp_path / "missing.pem"
    cases = [
        (TlsOptions(certificate=""), r"tls\.certificate is empty"),
        (TlsOptions(certificate=str(missing)), rf"tls\.certificate: cannot read {missing}: No such file"),
        (TlsOptions(certificate=str(tmp_path)), rf"tls\.certificate: cannot read {tmp_path}: Is a directory"),
        (TlsOptions(certificate=str(nonsense)), rf"tls\.certificate: {nonsense} has no certificate"),
        (TlsOptions(certificate=str(papers.certificate)), rf"tls\.key: {papers.certificate} has no private key"),
        (TlsOptions(certificate=str(papers.certificate), key=str(missing)), rf"tls\.key: cannot read {missing}"),
        (TlsOptions(certificate=str(papers.certificate), key=str(nonsense)), rf"tls\.key: {nonsense} has no private"),
        (
            TlsOptions(certificate=str(papers.certificate), key=str(other.key)),
            rf"tls\.key: {other.key} is not the key of {papers.certificate}",
        ),
        (options(papers, verify="required"), r'tls\.ca is empty; with tls\.verify = "required"'),
        (options(papers, verify="optional", ca=str(missing)), rf"tls\.ca: cannot read {missing}"),
        (options(papers, verify="optional", ca=str(nonsense)), rf"tls\.ca: {nonsense} has no certificate"),
    ]
    for wrong, text in cases:
        with pytest.raises(ConfigError, match=text):
            ServerCertificates(wrong)


@pytest.mark.parametrize("verify", ["optional", "required"])
def test_clients_certificates(authority: Authority, tmp_path: Path, verify: str) -> None:
    server = ServerCertificates(options(authority.server(), verify=verify, ca=str(authority.file))).context
    # Without tickets nobody comes in again unlooked at.
    assert server.num_tickets == 0
    ours, _ = meet(server, authority.context(authority.client("ann", "ann")))
    der = ours.getpeercert(binary_form=True)
    assert der is not None and Certificate(der).subject == "CN=ann"
    meet(server, authority.context(authority.child().issue("below", "ann")))
    stranger = Authority(tmp_path / "stranger")
    for refused in (
        stranger.client("ann", "ann"),
        authority.client("self", "ann", self_signed=True),
        authority.issue("old", "ann", expired=True),
    ):
        with pytest.raises(ssl.SSLCertVerificationError):
            meet(server, authority.context(refused))
    if verify == "required":
        with pytest.raises(ssl.SSLError):
            meet(server, authority.context())
    else:
        ours, _ = meet(server, authority.context())
        assert ours.getpeercert(binary_form=True) is None


def test_a_servers_certificate_is_no_clients(authority: Authority) -> None:
    """Who may only serve cannot log in with that."""
    server = ServerCertificates(options(authority.server(), verify="required", ca=str(authority.file))).context
    from cryptography import x509

    papers = authority.client("both", "ann", [x509.DNSName("localhost")])
    meet(server, authority.context(papers))
    only_server = authority.client("only", "ann", only_server=True)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unsuitable|unsupported"):
        meet(server, authority.context(only_server))


def shown(certificates: ServerCertificates, authority: Authority) -> bytes | None:
    """The certificate that a client sees now."""
    return meet(certificates.context, authority.context())[1].getpeercert(binary_form=True)


def test_reloading_replaces_the_certificate_for_the_next(authority: Authority) -> None:
    papers, newer = authority.server(), authority.server("newer")
    certificates = ServerCertificates(options(papers))
    ours, theirs = meet(certificates.context, authority.context())
    assert shown(certificates, authority) == papers.der
    old = papers.der
    for new_file, file in zip(newer, papers, strict=True):
        shutil.copy(new_file, file)
    # Nobody looks at files between reloads.
    assert shown(certificates, authority) == old
    certificates.reload()
    assert shown(certificates, authority) == newer.der
    # Who was connected goes on.
    theirs.write(b"still here")
    assert ours.read(100) == b"still here"


def test_bad_new_files_change_nothing(authority: Authority, tmp_path: Path) -> None:
    papers, other = authority.server(), authority.server("other")
    certificates = ServerCertificates(options(papers))
    context, old, not_after = certificates.context, papers.der, certificates.not_after
    good = papers.key.read_bytes()
    shutil.copy(other.key, papers.key)
    with pytest.raises(ConfigError, match="is not the key of"):
        certificates.reload()
    with pytest.raises(ConfigError, match="missing"):
        certificates.reload(TlsOptions(certificate=str(tmp_path / "missing")))
    assert (certificates.context, certificates.not_after) == (context, not_after)
    assert shown(certificates, authority) == old
    # Nor does it forget which files were meant.
    papers.key.write_bytes(good)
    certificates.reload()
    certificates.reload(options(other))
    assert shown(certificates, authority) == other.der


def test_the_end_of_the_certificate_is_known_and_warned_of(authority: Authority, caplog: Any) -> None:
    papers = authority.server()
    certificates = ServerCertificates(options(papers))
    assert caplog.records == []
    assert certificates.not_after == Certificate(papers.der).not_after
    assert certificates.subject == Certificate(papers.der).subject
    ended = ServerCertificates(options(authority.issue("old", "localhost", expired=True)))
    assert ended.not_after < certificates.not_after
    assert [record.getMessage().split(" file")[0] for record in caplog.records] == ["the certificate has ended"]


def test_servers_that_keep_a_context_show_the_new_certificate(authority: Authority) -> None:
    papers, newer = authority.server(), authority.server("newer")
    certificates = ServerCertificates(options(papers))

    async def look(port: int, name: str = "localhost") -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=authority.context(), server_hostname=name)
        seen = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert await reader.read() == b"hello"
        writer.close()
        await writer.wait_closed()
        return bytes(seen)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()
        await writer.wait_closed()

    async def test() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=certificates.front)
        async with server:
            port = server.sockets[0].getsockname()[1]
            assert await look(port) == papers.der
            certificates.reload(options(newer))
            assert await look(port) == newer.der
            # With an address for a name a client does not say whom it wants.
            assert await look(port, "127.0.0.1") == newer.der

    asyncio.run(test())
