#!/usr/bin/env bash
# Makes the Debian packages and tries them on a bare Debian 12 in a chroot: install, train, generate.
# Needs root, debootstrap and the network; takes some minutes. It is not one of ctest's tests.
#
#   bash tests/package/run.sh          the program
#   bash tests/package/run.sh --dev    and troupe-dev: builds a story against it, in the chroot
#
# Ends with 0 when it was tried and works, with 77 when it could not be tried, else with 1.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/package/chroot.sh
case ${1:-} in
  '' | --dev) ;;
  -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "tests/package/run.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
esac
((EUID == 0)) || not_run "only root can make a chroot"
bash examples/install_packages.sh build package || not_run "the packages that it needs cannot be installed"
for tool in debootstrap cpack dpkg-shlibdeps; do
  command -v $tool >/dev/null || not_run "$tool is missing"
done

build=build/release
step "packages"
cmake --preset release -DTROUPE_TESTS=OFF >/dev/null
cmake --build --preset release --target all_installed | tail -n 1
if grep -q -e '-march=' -e '-mtune=' -e '-mavx' $build/compile_commands.json; then
  echo "tests/package/run.sh: a source is compiled for one processor; see compile_commands.json" >&2
  exit 1
fi
packages=$build/tests/packages  # packages in $build are the user's (docs/guides/install.md)
rm -rf $packages
mkdir -p $packages
(cd $build && timeout 600 cpack -G DEB -B tests/packages >cpack.log) || { tail $build/cpack.log; exit 1; }
for package in $packages/troupe*.deb; do
  dpkg-deb --info "$package" | sed -n 's/^ \(Package\|Version\|Installed-Size\|Depends\)/  \1/p'
done

make_chroot
cp $packages/troupe*.deb "$root/tmp/"

as_user() {
  timeout 300 chroot --userspec=nobody:nogroup "$root" env -i -C /tmp PATH=/usr/bin:/bin HOME=/tmp "$@"
}
step "apt-get install ./troupe.deb"
quietly within env DEBIAN_FRONTEND=noninteractive apt-get update
quietly within env DEBIAN_FRONTEND=noninteractive sh -c \
  'apt-get install -y --no-install-recommends ./tmp/troupe_*.deb'

step "the program, as a user who is not root"
version=$(sed -n 's/^project(troupe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
said=$(as_user troupe --version)
echo "$said"
[[ $said == *"$version"* ]] || { echo "tests/package/run.sh: that is not version $version" >&2; exit 1; }
as_user mkdir /tmp/run
as_user troupe doctor
as_user troupe train gpt --mock-data --tokenizer-type NullTokenizer --vocab-size 100 \
  --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
  --max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 8 --train-iters 20 \
  --lr 3e-3 --world-size 4 --pipeline-model-parallel-size 2 --log-interval 10 \
  --eval-interval 0 --eval-iters 0 --save /tmp/run/checkpoints
as_user troupe checkpoint verify /tmp/run/checkpoints
as_user troupe generate --load /tmp/run/checkpoints --prompt "1 2 3" --tokens 5 --top-k 1

if [[ ${1:-} == --dev ]]; then
  step "apt-get install ./troupe-dev.deb, and a story against it"
  quietly within env DEBIAN_FRONTEND=noninteractive sh -c \
    'apt-get install -y --no-install-recommends ./tmp/troupe-dev_*.deb g++ cmake make'
  quietly as_user sh -c 'cp -r /usr/share/doc/troupe/examples /tmp/mine && cmake -S /tmp/mine -B /tmp/mine/build'
  quietly as_user cmake --build /tmp/mine/build --target story_03_own_layer
  as_user /tmp/mine/build/story_03_own_layer
fi
step "it installs and runs"
