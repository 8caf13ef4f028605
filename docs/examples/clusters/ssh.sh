#!/bin/sh
# Starts a worker on each host by SSH, and ends them all when it is interrupted. Each host has the same modelwheel, the
# files of certificates.sh, and the store.
#
#     sh ssh.sh tls://scheduler.example.org:8786 HOST...
set -eu
tls=${MODELWHEEL_TLS:-/srv/modelwheel/tls}
scheduler=$1
shift
trap 'trap - INT TERM; kill 0' INT TERM
for host in "$@"; do
  # With a terminal of its own, so that the worker ends with the connection.
  ssh -tt -o BatchMode=yes "$host" dask worker "$scheduler" --name "$host" --nworkers 1 --death-timeout 300 \
    --preload modelwheel.engine.cluster.worker \
    --tls-ca-file "$tls/ca.pem" --tls-cert "$tls/worker.pem" --tls-key "$tls/worker.key" </dev/null &
done
wait
