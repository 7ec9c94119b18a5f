#!/usr/bin/env bash
# Trains on the hosts of a list that ssh reaches without a password.
#
#   bash examples/ssh/train.sh HOSTFILE --config gpt.yaml --save /shared/gpt --load /shared/gpt
#   SSH="ssh -i cluster_key -p 2222" bash examples/ssh/train.sh ...
#
# HOSTFILE has a line for each host, such as `gpu-1 slots=8`: slots is the number of workers. The other flags are those
# of `troupe train gpt`. The program has the same path on each host, and all see the folder of --save.
set -euo pipefail
hosts=${1:?name a file with the hosts}
shift
exec troupe train gpt --hostfile "$hosts" ${SSH:+--ssh-command "$SSH"} "$@"
