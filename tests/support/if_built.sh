#!/bin/sh
# Runs a test program that is built by its name alone, and says so where it is not there (exit 77).
#
#   if_built.sh PROGRAM ARGUMENTS...
test -x "$1" || {
  echo "SKIPPED: $1 is not built"
  exit 77
}
exec "$@"
