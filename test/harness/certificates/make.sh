#!/bin/sh
# Makes the certificates of this folder again, valid for 100 years: a CA, a server, two clients, and
# a client with a self-signed certificate.
set -eu
NAMES=DNS:localhost,DNS:a.test,DNS:b.test,DNS:shop.test,DNS:other.test,IP:127.0.0.1
cd "$(dirname "$0")"
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1-key.pem"; }
key ca
openssl req -x509 -new -key ca-key.pem -subj "/CN=Stampede test CA" -days 36500 -out ca.pem
signed() {
  key "$1"
  openssl req -new -key "$1-key.pem" -subj "/CN=$2" -out "$1.csr"
  printf '%s' "$3" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 36500 \
    -extfile "$1.ext" -out "$1.pem"
  rm "$1.csr" "$1.ext"
}
signed server localhost "subjectAltName=$NAMES"
signed alice alice "extendedKeyUsage=clientAuth"
signed bob bob "extendedKeyUsage=clientAuth"
key mallory
openssl req -x509 -new -key mallory-key.pem -subj "/CN=mallory" -days 36500 -out mallory.pem
rm ca-key.pem ca.srl
