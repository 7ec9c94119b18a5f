#!/bin/sh
# Runs a test program that only its own build target makes. Exit code 77 (skipped) if it is missing.
#
#   if_built.sh PROGRAM ARGUMENTS...
test -x "$1" || {
  echo "SKIPPED: $1 is not built"
  exit 77
}
exec "$@"
