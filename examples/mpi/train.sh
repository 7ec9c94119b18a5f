#!/usr/bin/env bash
# Trains with Open MPI's mpirun, with one process on each host of a list. Ends in order at Ctrl-C and SIGTERM.
#
#   bash examples/mpi/train.sh HOSTFILE --config gpt.yaml --save /shared/gpt --load /shared/gpt
#
# HOSTFILE has a line for each host, such as `gpu-1 slots=8`. The other flags are those of `troupe train gpt`. `troupe`
# must be in PATH, and all hosts see the folder of --save. The exit code is that of the run. If a host is lost, mpirun
# ends all processes; the same command then continues from the newest checkpoint.
set -euo pipefail
hosts=${1:?name a file with the hosts}
shift

# One second after it has passed SIGTERM on, mpirun kills the processes, before a large model is saved. It passes
# SIGUSR1 on and waits. `setsid` keeps Ctrl-C from mpirun.
ended=0
trap 'ended=$((ended + 1)); kill -USR1 "$run"' INT TERM HUP USR1
setsid mpirun --hostfile "$hosts" --map-by ppr:1:node troupe train gpt "$@" &
run=$!
for ((before = -1; before != ended;)); do # a signal interrupts `wait`
  before=$ended
  code=0
  wait "$run" || code=$?
done
exit "$code"
