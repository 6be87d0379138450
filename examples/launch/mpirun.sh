#!/bin/bash
# One node runtime per rank, with Open MPI as the launcher only:
#   mpirun -np 4 --map-by node --enable-recovery examples/launch/mpirun.sh cluster.yaml
# Rank 0 is the first node of the file. Without --enable-recovery mpirun ends the job when a process is lost; with it, its
# exit code says nothing. SIGUSR1 to mpirun ends the job with a checkpoint; Ctrl-C and SIGTERM leave it a second only.
set -euo pipefail
export GROUP_RANK=$OMPI_COMM_WORLD_RANK
exec "${STAGECRAFT:-stagecraft}" node "$@"
