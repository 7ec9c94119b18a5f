# A bare Debian 12 in a chroot, for the scripts of this folder: source this file, then call make_chroot.
#
#   step TEXT        prints TEXT with the seconds since the start
#   quietly CMD...   shows the output of CMD only when it fails
#   not_run TEXT     ends the script with 77: it cannot be tried here
#   make_chroot      sets `root`, the folder of the system; it is removed when the script ends
#   within CMD...    runs CMD as root in the chroot, for an hour at most

started=$SECONDS
root=
log=
step() { printf '[%4d s] %s\n' $((SECONDS - started)) "$*"; }
not_run() {
  printf '\n**** NOT RUN: %s: %s ****\n\n' "$0" "$*" >&2
  exit 77
}
quietly() {
  "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "failed: $*" >&2; exit 1; }
  rm -f "$log"
}
within() { timeout 3600 chroot "$root" env -i -C / PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }

remove_chroot() {
  [[ $root ]] || return 0
  rm -f "$log"
  ! mountpoint -q "$root" || umount -R "$root" 2>/dev/null || umount -R -l "$root" 2>/dev/null || true
  ! grep -qF " $root" /proc/mounts || return 0  # what is still mounted must not be removed
  rm -rf --one-file-system "$root"
}

make_chroot() {
  ((EUID == 0)) || not_run "only root can make a chroot"
  bash examples/install_packages.sh package || not_run "the packages that it needs cannot be installed"
  command -v debootstrap >/dev/null || not_run "debootstrap is missing"
  root=$(mktemp -d)
  log=$root.log
  trap remove_chroot EXIT
  trap 'exit 130' INT TERM HUP
  chmod 755 "$root"  # other users look into it
  mkdir "$root/proc"
  mount -t proc proc "$root/proc" 2>/dev/null || not_run "this machine does not allow mounting /proc"
  umount "$root/proc"
  local mirror
  mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\) .*/\2/p' \
    /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list \
    2>/dev/null | grep -v security | head -n 1 || true)
  mirror=${mirror:-http://deb.debian.org/debian}
  step "a bare Debian 12"
  if ! timeout 900 debootstrap --variant=minbase bookworm "$root" "$mirror" >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    not_run "debootstrap got no Debian from $mirror; its last lines are above"
  fi
  rm -f "$log"
  ! mountpoint -q "$root/proc" || umount "$root/proc"
  # What a system has after its boot: its root is a mount (network namespaces need that), UCX finds network interfaces
  # in /sys, terminals are in /dev/pts, and localhost has an address (chromedriver asks for it).
  mount --bind "$root" "$root"
  mount --make-private "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$root/dev/pts"
  ln -sf pts/ptmx "$root/dev/ptmx"
  mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/dev/shm"
  echo '127.0.0.1 localhost' >"$root/etc/hosts"
  # Uses this machine's network configuration to reach its mirror.
  cp /etc/resolv.conf "$root/etc/"
  cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
}
