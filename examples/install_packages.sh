#!/usr/bin/env bash
# Installs the missing Debian 12 packages that Troupe needs.
#
#   bash examples/install_packages.sh build        to build the program
#   bash examples/install_packages.sh build test   also to build and run the tests
#   bash examples/install_packages.sh cluster      Slurm, Open MPI and an ssh server, which tests and examples start by themselves
#   bash examples/install_packages.sh check        CI's tools to check format, manual pages, completions, the run's page and its metrics
#   bash examples/install_packages.sh package      to make Debian packages and test them in a chroot
#   bash examples/install_packages.sh fuzz         clang++ with libFuzzer, for the preset dev
#   bash examples/install_packages.sh text         an English text to train on
#
# docs/decisions/0001-dependencies.md explains the choice of each package.
set -euo pipefail

build=(g++ cmake ninja-build pkg-config
       libcaf-dev libspdlog-dev libfmt-dev libdnnl-dev ocl-icd-opencl-dev libhwy-dev
       libcli11-dev libyaml-cpp-dev nlohmann-json3-dev libssl-dev libxxhash-dev libpcre2-dev libutf8proc-dev libsentencepiece-dev
       zlib1g-dev libzstd-dev libicu-dev libcurl4-openssl-dev libncurses-dev prometheus-cpp-dev liblua5.4-dev libucx-dev
       libboost-context-dev libjs-chart.js)
text=(bible-kjv bible-kjv-text)
test=(catch2/bookworm-backports ccache git iproute2 openssl python3 "${text[@]}")  # the tests run the pages' commands on this text
cluster=(slurmctld slurmd slurm-client munge openmpi-bin openssh-server openssh-client iproute2)
check=(clang-format clang-tidy mandoc man-db zsh fish chromium chromium-driver prometheus)
package=(dpkg-dev file debootstrap)
fuzz=(clang libclang-rt-14-dev libomp-dev)

wanted=()
for group in "$@"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    cluster) wanted+=("${cluster[@]}") ;;
    check) wanted+=("${check[@]}") ;;
    package) wanted+=("${package[@]}") ;;
    fuzz) wanted+=("${fuzz[@]}") ;;
    text) wanted+=("${text[@]}") ;;
    *)
      echo "install_packages.sh: unknown group '$group'; groups: build test cluster check fuzz package text" >&2
      exit 2
      ;;
  esac
done

installed() { dpkg-query -W -f '${db:Status-Abbrev} ${Version}\n' "$1" 2>/dev/null | grep -q "^ii *$2"; }

missing=()
for one in "${wanted[@]}"; do
  case $one in
    catch2/*) installed catch2 3 || missing+=("$one") ;;
    *) installed "$one" "" || missing+=("$one") ;;
  esac
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install_packages.sh: packages are missing and only root can install them; run as root:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 2
  fi
  as_root=(sudo)
fi

echo "installing ${#missing[@]} missing Debian packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "install_packages.sh: '$*' failed; its last lines are above" >&2
    exit 2
  fi
}

# Debian 12 has Catch2 version 2. Version 3 is in the backports of the same mirror.
if [[ " ${missing[*]} " == *" catch2/"* ]] && ! grep -rqs bookworm-backports /etc/apt/sources.list /etc/apt/sources.list.d; then
  mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\) .*/\2/p' \
    /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list \
    2>/dev/null | grep -v security | head -n 1 || true)
  "${as_root[@]}" tee /etc/apt/sources.list.d/bookworm-backports.sources >/dev/null <<SOURCES
Types: deb
URIs: ${mirror:-http://deb.debian.org/debian}
Suites: bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
fi
# The tests start these services by themselves, so a newly installed one stays off: masked for systemd, and not started
# now.
quiet=()
for one in prometheus munge slurmctld slurmd openssh-server; do
  if [[ " ${missing[*]} " == *" $one "* ]]; then
    quiet+=("${one/openssh-server/ssh}")
  fi
done
if ((${#quiet[@]})); then
  quietly mkdir -p /etc/systemd/system
  for one in "${quiet[@]}"; do
    [[ -e /etc/systemd/system/$one.service ]] || quietly ln -s /dev/null "/etc/systemd/system/$one.service"
  done
  policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    trap 'rm -f "$log"; "${as_root[@]}" rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    quietly chmod 755 "$policy"
  fi
fi
quietly apt-get update
quietly apt-get install -y --no-install-recommends "${missing[@]}"
