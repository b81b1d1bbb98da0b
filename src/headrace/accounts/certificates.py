"""From a client's certificate to a user: `verify_and_map`.

A certificate has several names, and any of them may be a user's. nats-server tries them in this order:

    1. the e-mail addresses, DNS names and URIs among its alternative names, as they are
    2. its subject, compared part by part with the users' names that are distinguished names;
       first in the order of the certificate, then in any order
    3. its subject as Go writes it, with the domain components at the end
    4. the same without them

Go writes a subject in an order of its own, whatever the order in the certificate: the serial number, the
common name, ..., the country.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import TypeAlias

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID, ObjectIdentifier

Part: TypeAlias = "frozenset[tuple[str, str]]"
"""A relative distinguished name: types, in capital letters, and values."""

# In the order in which Go collects them; it writes the last one first.
GO_ORDER: dict[ObjectIdentifier, str] = {
    NameOID.COUNTRY_NAME: "C",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.POSTAL_CODE: "POSTALCODE",
    NameOID.COMMON_NAME: "CN",
    NameOID.SERIAL_NUMBER: "SERIALNUMBER",
}
SINGLE = (NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER)
"""Of these Go keeps the last one only."""
TYPE_NAMES = GO_ORDER | {NameOID.DOMAIN_COMPONENT: "DC"}
ESCAPED = frozenset(',+"\\<>;')


class CertificateNames(msgspec.Struct, frozen=True):
    """Under which names a certificate can be known."""

    alternative: tuple[str, ...]
    """E-mail addresses, DNS names, URIs."""
    parts: tuple[Part, ...] | None
    """Of the subject, the last one first; None: it has a type that nobody names."""
    subjects: tuple[str, ...]
    """As text: with the domain components, if there are any, and without them."""


def map_to_user(names: CertificateNames, users: Collection[str]) -> str | None:
    """The user whose certificate this is; None: nobody's."""
    for name in names.alternative:
        if name in users:
            return name
    if names.parts:
        parsed = {user: parts for user in users if (parts := parse_distinguished_name(user)) is not None}
        for user, parts in parsed.items():
            if parts == names.parts:
                return user
        for user, parts in parsed.items():
            if Counter(parts) == Counter(names.parts):
                return user
    return next((subject for subject in names.subjects if subject in users), None)


def read_names(der: bytes) -> CertificateNames:
    certificate = x509.load_der_x509_certificate(der)
    subject = certificate.subject
    plain = format_sequence(go_sequence(subject))
    components = [f"DC={text(part)}" for part in subject if part.oid == NameOID.DOMAIN_COMPONENT]
    with_components = [f"{plain},{','.join(components)}"] if components else []
    return CertificateNames(
        alternative=tuple(_alternative_names(certificate)),
        parts=_parts(subject),
        subjects=(*with_components, plain) if plain else tuple(with_components),
    )


def pin(der: bytes) -> str:
    """The SHA-256 of a certificate's public key, as `pinned_certs` has it."""
    key = x509.load_der_x509_certificate(der).public_key()
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def describe_subject(der: bytes) -> str:
    """As Go prints it, which is also what /connz shows: types that it has no name for come last."""
    subject = x509.load_der_x509_certificate(der).subject
    unnamed = [[part] for part in subject if part.oid not in GO_ORDER]
    return format_sequence([*unnamed, *go_sequence(subject)])


def go_sequence(subject: x509.Name) -> list[list[x509.NameAttribute[str | bytes]]]:
    found: list[list[x509.NameAttribute[str | bytes]]] = []
    for oid in GO_ORDER:
        attributes = subject.get_attributes_for_oid(oid)
        if oid in SINGLE:
            attributes = attributes[-1:]
        if attributes:
            found.append(list(attributes))
    return found


def format_sequence(sequence: list[list[x509.NameAttribute[str | bytes]]]) -> str:
    """As RFC 2253 has it: the last part first."""
    return ",".join("+".join(_format_attribute(one) for one in part) for part in reversed(sequence))


def _format_attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    if attribute.oid not in GO_ORDER:
        # The value as DER: a tag, its length, the bytes.
        data = text(attribute).encode()
        return f"{attribute.oid.dotted_string}=#{attribute._type.value:02x}{len(data):02x}{data.hex()}"
    value = text(attribute)
    escaped = ""
    for place, character in enumerate(value):
        at_edge = place in (0, len(value) - 1)
        if character in ESCAPED or (character == " " and at_edge) or (character == "#" and place == 0):
            escaped += "\\"
        escaped += character
    return f"{GO_ORDER[attribute.oid]}={escaped}"


def text(attribute: x509.NameAttribute[str | bytes]) -> str:
    value = attribute.value
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _alternative_names(certificate: x509.Certificate) -> Iterator[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return
    yield from extension.value.get_values_for_type(x509.RFC822Name)
    yield from extension.value.get_values_for_type(x509.DNSName)
    yield from extension.value.get_values_for_type(x509.UniformResourceIdentifier)


def _parts(subject: x509.Name) -> tuple[Part, ...] | None:
    parts = []
    for relative in reversed(subject.rdns):
        if any(attribute.oid not in TYPE_NAMES for attribute in relative):
            return None
        parts.append(frozenset((TYPE_NAMES[attribute.oid], text(attribute)) for attribute in relative))
    return tuple(parts)


def parse_distinguished_name(name: str) -> tuple[Part, ...] | None:
    """`CN=www, OU=a+OU=b, C=DE`, as RFC 4514 has it; None if it is something else."""
    parts = []
    for relative in _split(name, ","):
        attributes = set()
        for attribute in _split(relative, "+"):
            kind, equals, value = attribute.partition("=")
            if (
                not equals or not kind.strip() or value.lstrip().startswith("#")
            ):  # what is BER, it cannot read
                return None
            attributes.add((kind.strip().upper(), _unescape(value)))
        parts.append(frozenset(attributes))
    return tuple(parts)


def _split(escaped: str, separator: str) -> list[str]:
    """The pieces between separators that are not escaped."""
    pieces = [""]
    for token in re.findall(r"\\.|.", escaped, re.DOTALL):
        if token == separator:
            pieces.append("")
        else:
            pieces[-1] += token
    return pieces


def _unescape(value: str) -> str:
    """Without escapes, and without the spaces around it that are not escaped."""
    stripped = value.lstrip(" ")
    while stripped.endswith(" ") and not stripped.endswith("\\ "):
        stripped = stripped[:-1]
    octets = re.sub(
        rb"\\([0-9a-fA-F]{2}|.)",
        lambda found: bytes.fromhex(found[1].decode()) if len(found[1]) == 2 else found[1],
        stripped.encode("utf-8", "surrogateescape"),
        flags=re.DOTALL,
    )
    return octets.decode("utf-8", "replace")
