// Logging in with an nkey: the server sends a nonce, the seed signs it here, and only the signature is sent.

import * as api from "./api.js";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const JWT = /-+BEGIN NATS USER JWT-+\s*([A-Za-z0-9_.-]+)\s*-+END/;
const SEED = /\bS[A-Z2-7]{57}\b/;
// An Ed25519 private key in PKCS #8 is this, and then its 32 bytes.
const PKCS8 = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

export function base32Decode(text) {
  const bytes = [];
  let bits = 0;
  let value = 0;
  for (const letter of text) {
    value = (value << 5) | ALPHABET.indexOf(letter);
    bits += 5;
    if (bits >= 8) { bits -= 8; bytes.push((value >>> bits) & 0xff); value &= (1 << bits) - 1; }
  }
  return Uint8Array.from(bytes);
}

export function base32Encode(bytes) {
  let text = "";
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) { bits -= 5; text += ALPHABET[(value >>> bits) & 31]; value &= (1 << bits) - 1; }
  }
  return bits ? text + ALPHABET[(value << (5 - bits)) & 31] : text;
}

function checksum(bytes) {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}

const base64url = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
const fromBase64url = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));

// What the login needs, made of the contents of a .creds file or of a seed.
export async function signIn(text) {
  const seed = text.match(SEED)?.[0];
  if (!seed) throw new Error("There is no user seed in this text (it starts with SU).");
  if (!globalThis.crypto?.subtle) throw new Error("This browser signs only over https or on this machine (localhost).");
  const raw = base32Decode(seed);
  const kind = ((raw[0] & 7) << 5) | (raw[1] >> 3);
  const secret = raw.slice(2, 34);
  let key;
  try {
    key = await crypto.subtle.importKey("pkcs8", Uint8Array.from([...PKCS8, ...secret]), { name: "Ed25519" }, true, ["sign"]);
  } catch {
    throw new Error("This browser does not know Ed25519 signatures; a newer one does.");
  }
  const jwk = await crypto.subtle.exportKey("jwk", key);
  const body = Uint8Array.from([kind, ...fromBase64url(jwk.x)]);
  const sum = checksum(body);
  const nonce = await api.nonce();
  const signature = await crypto.subtle.sign("Ed25519", key, new TextEncoder().encode(nonce));
  const jwt = text.match(JWT)?.[1] ?? "";
  const nkey = base32Encode(Uint8Array.from([...body, sum & 0xff, sum >> 8]));
  return { nonce, sig: base64url(new Uint8Array(signature)), ...(jwt ? { jwt } : { nkey }) };
}
