#!/usr/bin/env bash
# Runs the README's commands on a bare Debian 12 in a chroot, on a clone of the last commit.
# Needs root, debootstrap and the network. The compiler's cache is shared with this machine.
#
#   bash tests/package/readme.sh           examples/quickstart.sh
#   bash tests/package/readme.sh --tests   and tests/run.sh, which .ci/run also runs
#
# Ends with 0 when they work and README.md shows the losses of the first, with 77 when they could not be tried, else
# with 1.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/package/chroot.sh
case ${1:-} in
  '' | --tests) ;;
  -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "tests/package/readme.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
esac

make_chroot
step "git, and a clone"
quietly within env DEBIAN_FRONTEND=noninteractive apt-get update
quietly within env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends git ca-certificates
git clone -q . "$root/troupe"
if cache=$(ccache --get-config cache_dir 2>/dev/null) && [[ -d $cache ]]; then
  mkdir -p "$root/ccache"
  mount --bind "$cache" "$root/ccache"
fi
step "bash examples/quickstart.sh"
within env CCACHE_DIR=/ccache bash /troupe/examples/quickstart.sh 2>&1 | tee "$root/quickstart.out"
python3 -B tests/readme/readme_test.py "$root/quickstart.out" --quickstart README.md
if [[ ${1:-} ]]; then
  step "bash tests/run.sh"
  within env CCACHE_DIR=/ccache bash /troupe/tests/run.sh
fi
step "done"
