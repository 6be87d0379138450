#!/bin/bash
# One node runtime per rank, with Open MPI as the launcher only:
#   mpirun -np 4 --map-by node examples/launch/mpirun.sh cluster.yaml
set -euo pipefail
export GROUP_RANK=$OMPI_COMM_WORLD_RANK
exec stagecraft node "$@"
