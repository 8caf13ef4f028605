#!/bin/sh
# Makes what the machines of a cluster know each other by: an authority, and a key with a certificate for each role.
# Whoever has one of these keys can run anything on every machine of the cluster: hand out `client` to release engineers
# alone, and keep `ca.key` off the cluster.
#
#     sh certificates.sh DIRECTORY
set -eu
umask 077
mkdir -p "$1"
cd "$1"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 365 -subj "/CN=modelwheel cluster" \
  -keyout ca.key -out ca.pem
for role in scheduler worker client; do
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj "/CN=$role" -keyout "$role.key" -out "$role.csr"
  openssl x509 -req -in "$role.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -out "$role.pem"
  rm "$role.csr"
done
