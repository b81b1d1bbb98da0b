"""A `tls` block with a mistake: both servers refuse it, at the same place and with the same words.

Ours may add which file it is and what to do.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from headrace.cli.nats_server import run
from tests.certificates import shared
from tests.servers import server_command

FILES = shared()
GOOD = f'cert_file: "{FILES.server.certificate}", key_file: "{FILES.server.key}"'

MISTAKES = {
    "unknown_field": f'{GOOD}, cert_fil: "x"',
    "certificate_is_a_number": "cert_file: 5",
    "key_is_a_list": f'cert_file: "{FILES.server.certificate}", key_file: []',
    "ca_is_a_boolean": f"{GOOD}, ca_file: true",
    "verify_is_a_string": f'{GOOD}, verify: "yes"',
    "verify_and_map_is_a_number": f"{GOOD}, verify_and_map: 1",
    "insecure_is_a_number": f"{GOOD}, insecure: 1",
    "known_urls": f"{GOOD}, verify_cert_and_check_known_urls: true",
    "no_key": f'cert_file: "{FILES.server.certificate}"',
    "no_certificate": f'key_file: "{FILES.server.key}"',
    "certificate_missing": f'cert_file: "/nowhere/x.pem", key_file: "{FILES.server.key}"',
    "key_missing": f'cert_file: "{FILES.server.certificate}", key_file: "/nowhere/x.pem"',
    "ca_missing": f'{GOOD}, ca_file: "/nowhere/ca.pem"',
    "ca_is_something_else": f'{GOOD}, ca_file: "{FILES.server.key}"',
    "key_of_another": f'cert_file: "{FILES.server.certificate}", key_file: "{FILES.client.key}"',
    "certificate_is_a_key": f'cert_file: "{FILES.server.key}", key_file: "{FILES.server.key}"',
    "unknown_cipher": f'{GOOD}, cipher_suites: ["TLS_NONSENSE"]',
    "no_ciphers": f"{GOOD}, cipher_suites: []",
    "insecure_cipher": f'{GOOD}, cipher_suites: ["TLS_RSA_WITH_AES_128_CBC_SHA"]',
    "insecure_ciphers": (
        f'{GOOD}, cipher_suites: ["TLS_RSA_WITH_RC4_128_SHA", "TLS_RSA_WITH_AES_256_GCM_SHA384"]'
    ),
    "unknown_curve": f'{GOOD}, curve_preferences: ["P256"]',
    "no_curves": f"{GOOD}, curve_preferences: []",
    "old_version": f'{GOOD}, min_version: "1.1"',
    "unknown_version": f'{GOOD}, min_version: "1.4"',
    "version_is_a_number": f"{GOOD}, min_version: 1.2",
    "timeout_is_a_list": f"{GOOD}, timeout: []",
    "timeout_is_nonsense": f'{GOOD}, timeout: "soon"',
    "first_is_nonsense": f'{GOOD}, handshake_first: "maybe"',
    "first_is_a_number": f"{GOOD}, handshake_first: 5",
    "pins_are_a_string": f'{GOOD}, pinned_certs: "x"',
    "pin_too_short": f'{GOOD}, pinned_certs: ["abc"]',
    "pin_with_other_letters": f'{GOOD}, pinned_certs: ["{"g" * 64}"]',
    "rate_is_a_string": f'{GOOD}, connection_rate_limit: "5"',
    "certificates_and_certificate": f"{GOOD}, certs: [{{ {GOOD} }}]",
    "certificates_without_key": f'certs: [{{ cert_file: "{FILES.server.certificate}" }}]',
    "certificates_unknown_field": f"certs: [{{ {GOOD}, x: y }}]",
    "certificates_missing_file": f'certs: [{{ {GOOD} }}, {{ cert_file: "/nowhere", key_file: "/nowhere" }}]',
}

VALID = {
    "plain": GOOD,
    "everything": (
        f'{GOOD}, ca_file: "{FILES.ca}", verify: true, min_version: "1.3", timeout: "3s", '
        "handshake_first: auto, "
        f'pinned_certs: ["{FILES.client.pin()}"], connection_rate_limit: 100, insecure: false, '
        'cipher_suites: ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"], '
        'curve_preferences: ["CurveP384"]'
    ),
    "certificates": f"certificates: [{{ {GOOD} }}, {{ {GOOD} }}]",
    "first": f"{GOOD}, first: on",
    "immediate": f'{GOOD}, immediate: "100ms"',
    "insecure_cipher": (
        f'allow_insecure_cipher_suites: true, {GOOD}, cipher_suites: ["TLS_RSA_WITH_AES_128_CBC_SHA"]'
    ),
    "empty": "",
}


def check_with_nats_server(config: Path) -> tuple[int, str]:
    outcome = subprocess.run(
        [*server_command("nats-server"), "-t", "-c", str(config)], capture_output=True, text=True, timeout=60
    )
    return outcome.returncode, without_column(outcome.stderr)


def check_with_headrace(config: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = run(["-t", "-c", str(config)])
    return code, without_column(capsys.readouterr().err)


def without_column(text: str) -> str:
    """nats-server counts the quote before a string in an array, but not elsewhere."""
    return re.sub(r"(\.conf:\d+):\d+:", r"\1:", text.strip())


@pytest.mark.parametrize("block", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_refused_as_by_nats_server(
    block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "server.conf"
    config.write_text(f"# a comment\ntls {{ {block} }}\n")
    reference_code, reference = check_with_nats_server(config)
    code, ours = check_with_headrace(config, capsys)
    assert reference_code == code == 1, (reference, ours)
    assert ours.startswith(reference)
    assert "\n" not in ours


@pytest.mark.parametrize("block", VALID.values(), ids=VALID.keys())
def test_what_is_right_is_accepted_as_by_nats_server(
    block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "server.conf"
    config.write_text(f"tls {{ {block} }}\n")
    assert check_with_headrace(config, capsys) == check_with_nats_server(config)


def test_an_expired_certificate_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """nats-server accepts it; then every client refuses the server."""
    config = tmp_path / "server.conf"
    config.write_text(
        f'tls {{ cert_file: "{FILES.expired.certificate}", key_file: "{FILES.expired.key}" }}\n'
    )
    assert check_with_nats_server(config)[0] == 0
    code, ours = check_with_headrace(config, capsys)
    assert code == 1
    assert f'cert_file "{FILES.expired.certificate}" expired on' in ours
    assert "renew" in ours
