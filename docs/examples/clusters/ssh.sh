#!/bin/sh
# Starts a worker on each host by SSH, and ends them all when it is interrupted. On each host, /srv/modelwheel has the same
# virtual environment, a modelwheel.toml with [cluster], and the files that it names.
#
#     sh ssh.sh tls://scheduler.example.org:8786 HOST...
set -eu
scheduler=$1
shift
trap 'trap - INT TERM; kill 0' INT TERM
for host in "$@"; do
  # With a terminal of its own, so that the worker ends with the connection.
  ssh -tt -o BatchMode=yes "$host" "cd /srv/modelwheel && venv/bin/modelwheel worker --name $host $scheduler" </dev/null &
done
wait
