#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8 --time=01:00:00
# A job in containers of Pyxis and Enroot. The image needs nothing of ddl: the unpacked archive of `tools/package tar`
# is mounted beside the job's folder, and the variables are set inside, for the program alone.
#
#     IMAGE=docker://nvcr.io#nvidia/pytorch:26.10-py3 sbatch slurm-pyxis.sh python3 train.py
set -euo pipefail
ddl=${DDL:-/opt/ddl}
run=$PWD/train-$SLURM_JOB_ID.ddl

srun --container-image="$IMAGE" --container-mounts="$ddl:/opt/ddl:ro,$PWD:$PWD" --container-workdir="$PWD" \
  env LD_PRELOAD=/opt/ddl/lib/ddl/libddl.so DDL_OUT="$run" \
  sh -c 'PYTHONPATH=/opt/ddl/share/ddl/python/ddl_hooks${PYTHONPATH:+:$PYTHONPATH} exec "$@"' sh "$@"

"$ddl/bin/ddl" report "$run" --one-line
