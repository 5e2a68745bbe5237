"""Certificates: names as RabbitMQ prints them, and which of them may be a login."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from leveret.runtime.certificate import Certificate, LoginName, read_certificates
from tests.conformance.authority import Authority


def part(kind: x509.ObjectIdentifier, value: str) -> x509.NameAttribute:
    return x509.NameAttribute(kind, value)


def certificate(
    authority: Authority, subject: x509.Name | str, alternatives: list[x509.GeneralName] | None = None
) -> Certificate:
    return Certificate(authority.client("client", subject, alternatives or ()).der)


# What RabbitMQ 3.10.8 printed for these very names.
PRINTED = [
    (
        [
            part(NameOID.COUNTRY_NAME, "DE"),
            part(NameOID.STATE_OR_PROVINCE_NAME, "Berlin"),
            part(NameOID.LOCALITY_NAME, "Mitte"),
            part(NameOID.ORGANIZATION_NAME, "Acme"),
            part(NameOID.ORGANIZATIONAL_UNIT_NAME, "Ops"),
            part(NameOID.COMMON_NAME, "ann"),
            part(NameOID.EMAIL_ADDRESS, "ann@example.com"),
        ],
        "EMAILADDRESS=ann@example.com,CN=ann,OU=Ops,O=Acme,L=Mitte,ST=Berlin,C=DE",
    ),
    (
        [
            part(NameOID.ORGANIZATION_NAME, ' #lead, "q"+<x>;\\ end '),
            part(NameOID.COMMON_NAME, "#J\u00fcrgen~\u20ac=x/y"),
        ],
        'CN=\\#J\\C3\\BCrgen\\7E\\E2\\82\\AC=x/y,O=\\ #lead\\, \\"q\\"\\+\\<x\\>\\;\\\\ end\\ ',
    ),
    (
        [
            part(NameOID.DOMAIN_COMPONENT, "com"),
            part(NameOID.DOMAIN_COMPONENT, "example"),
            part(NameOID.SERIAL_NUMBER, "77"),
            part(NameOID.SURNAME, "Sur"),
            part(NameOID.GIVEN_NAME, "Giv"),
            part(NameOID.TITLE, "Dr"),
            part(NameOID.PSEUDONYM, "ps"),
            part(NameOID.GENERATION_QUALIFIER, "III"),
            part(NameOID.INITIALS, "ab"),
            part(NameOID.DN_QUALIFIER, "dq"),
            part(NameOID.STREET_ADDRESS, "Str 1"),
            part(NameOID.POSTAL_CODE, "10115"),
            part(NameOID.USER_ID, "uid"),
            part(NameOID.COMMON_NAME, "types"),
        ],
        "CN=types,UID=uid,2.5.4.17=10115,2.5.4.9=Str 1,2.5.4.46=dq,INITIALS=ab,GENERATIONQUALIFIER=III,PSEUDONYM=ps,"
        "TITLE=Dr,GIVENNAME=Giv,SN=Sur,SERIALNUMBER=77,DC=example,DC=com",
    ),
    ([part(NameOID.COMMON_NAME, "a\x01\x00b")], "CN=a\\01\\00b"),
    ([], ""),
]


@pytest.mark.parametrize(("parts", "printed"), PRINTED)
def test_a_name_is_printed_as_rabbitmq_prints_it(
    authority: Authority, parts: list[x509.NameAttribute], printed: str
) -> None:
    assert certificate(authority, x509.Name(parts)).subject == printed


def test_parts_that_belong_together_stay_together(authority: Authority) -> None:
    together = x509.RelativeDistinguishedName([part(NameOID.COMMON_NAME, "one"), part(NameOID.USER_ID, "u1")])
    alone = x509.RelativeDistinguishedName([part(NameOID.COMMON_NAME, "two")])
    assert certificate(authority, x509.Name([together, alone])).subject == "CN=two,CN=one+UID=u1"


def test_two_names_that_differ_are_printed_differently(authority: Authority) -> None:
    """A comma in one value is not the end of it."""
    sly = certificate(authority, x509.Name([part(NameOID.COMMON_NAME, "ann,O=Acme")]))
    honest = certificate(
        authority, x509.Name([part(NameOID.ORGANIZATION_NAME, "Acme"), part(NameOID.COMMON_NAME, "ann")])
    )
    assert honest.login_name("dn") == "CN=ann,O=Acme"
    assert sly.login_name("dn") == "CN=ann\\,O=Acme"


def test_issuer_and_validity(authority: Authority) -> None:
    made = certificate(authority, "ann")
    assert "Leveret tests" in made.issuer
    assert made.not_before < datetime.datetime.now(datetime.UTC) < made.not_after
    begin, _, end = made.validity.partition(" - ")
    assert begin == made.not_before.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert end == made.not_after.strftime("%Y-%m-%dT%H:%M:%SZ")


ALTERNATIVES = [
    x509.UniformResourceIdentifier("spiffe://leveret/ann"),
    x509.DNSName("ann.example.com"),
    x509.DNSName("other.example.com"),
    x509.RFC822Name("ann@example.com"),
]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("cn", "ann"),
        ("dn", "CN=ann"),
        ("san_dns", "ann.example.com"),
        ("san_email", "ann@example.com"),
        ("san_uri", "spiffe://leveret/ann"),
    ],
)
def test_each_kind_of_login_name(authority: Authority, kind: LoginName, name: str) -> None:
    assert certificate(authority, "ann", ALTERNATIVES).login_name(kind) == name


@pytest.mark.parametrize("kind", ["san_dns", "san_email", "san_uri"])
def test_without_such_a_name_nobody_is_meant(authority: Authority, kind: LoginName) -> None:
    with pytest.raises(ValueError, match="no alternative names"):
        certificate(authority, "ann").login_name(kind)
    other = x509.RegisteredID(NameOID.COMMON_NAME)
    with pytest.raises(ValueError, match=f"no alternative name of the kind {kind}"):
        certificate(authority, "ann", [other]).login_name(kind)


@pytest.mark.parametrize(
    "name",
    ["ann\x00.evil", "ann\n", "\x7f", "a\x85b", "ann\u202egro", "ann\u200b", "ann\u2028", "x\u0000"],
)
def test_a_name_with_what_cannot_be_seen_is_nobodys(authority: Authority, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be seen") as caught:
        certificate(authority, name).login_name("cn")
    assert str(caught.value).isprintable()


def test_two_common_names_are_nobodys(authority: Authority) -> None:
    """RabbitMQ takes both with a comma between: then `ann,bob` can be made in two ways."""
    both = x509.Name([part(NameOID.COMMON_NAME, "ann"), part(NameOID.COMMON_NAME, "bob")])
    with pytest.raises(ValueError, match="2 common names, not 1"):
        certificate(authority, both).login_name("cn")
    with pytest.raises(ValueError, match="0 common names, not 1"):
        certificate(authority, x509.Name([part(NameOID.ORGANIZATION_NAME, "Acme")])).login_name("cn")


def test_odd_but_clear_names_are_taken_as_they_are(authority: Authority) -> None:
    for name in ('a "quoted", name', "j\u00fcrgen", " ann", "O=Acme", "../x"):
        assert certificate(authority, name).login_name("cn") == name


def test_an_empty_or_endless_name_is_nobodys(authority: Authority) -> None:
    with pytest.raises(ValueError, match="empty"):
        certificate(authority, x509.Name([])).login_name("dn")
    long = x509.Name([part(NameOID.ORGANIZATIONAL_UNIT_NAME, "x" * 60)] * 5)
    with pytest.raises(ValueError, match="longer than 255"):
        certificate(authority, long).login_name("dn")


def test_a_common_name_that_is_not_utf8_is_nobodys(authority: Authority) -> None:
    der = authority.client("client", "abcdef").der
    broken = der.replace(b"\x0c\x06abcdef", b"\x0c\x06abc\xff\xfef")
    assert broken != der
    with pytest.raises(ValueError):
        Certificate(broken).login_name("cn")


@pytest.mark.parametrize("der", [b"", b"\x30\x03\x02\x01\x00", bytes(100)])
def test_what_is_no_certificate_is_a_value_error(der: bytes) -> None:
    with pytest.raises(ValueError):
        _ = Certificate(der).subject


def test_a_chain_is_read_in_its_order(authority: Authority, tmp_path: Path) -> None:
    papers = authority.child().issue("leaf", "localhost")
    chain = read_certificates(papers.certificate.read_bytes())
    assert len(chain) == 2
    assert chain[0].der == papers.der
    assert chain[1].subject == chain[0].issuer
    with pytest.raises(ValueError):
        read_certificates(b"nothing")
