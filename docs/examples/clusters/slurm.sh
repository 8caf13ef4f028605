#!/usr/bin/env bash

#SBATCH -J dask-worker
#SBATCH -e logs/dask-worker-%J.err
#SBATCH -o logs/dask-worker-%J.out
#SBATCH -p compute
#SBATCH -n 1
#SBATCH --cpus-per-task=16
#SBATCH --mem=60G
#SBATCH -t 08:00:00
export DASK_MODELWHEEL__MEMORY=60000000000
export DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP=300s
/srv/modelwheel/venv/bin/python -m distributed.cli.dask_worker tls://scheduler.example.org:8786 --name dummy-name --nthreads 16 --memory-limit 59.60GiB --nanny --death-timeout 300 --local-directory $TMPDIR --preload modelwheel.engine.cluster.worker --protocol tls:// --tls-ca-file /srv/modelwheel/tls/ca.pem --tls-cert /srv/modelwheel/tls/worker.pem --tls-key /srv/modelwheel/tls/worker.key
