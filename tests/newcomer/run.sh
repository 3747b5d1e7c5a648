#!/usr/bin/env bash
# Runs the README's commands as a newcomer does: in an empty Debian with nothing but Go, git and a root
# shell. The working tree's last commit is cloned into it. Needs root and the package debootstrap.
#
#   tests/newcomer/run.sh                          # what the README says: up and test
#   tests/newcomer/run.sh 'go tool task test'      # one command
#
# SUITE is the Debian release (bookworm). The caches of Go are those of this machine; COLD=1 gives the
# newcomer empty ones.
set -euo pipefail

if [ "${1-}" != --inside ]; then
  here=$(cd "$(dirname "$0")/../.." && pwd)
  suite=${SUITE:-bookworm}
  root=$(mktemp -d "${TMPDIR:-/var/tmp}/newcomer-XXXXXX")
  chmod 755 "$root" # it becomes /, which users of a pod with user IDs of its own must be able to enter
  trap 'rm -rf --one-file-system "$root"' EXIT
  echo "=== an empty Debian $suite in $root"
  debootstrap --variant=minbase --include=ca-certificates,git "$suite" "$root" >"$root.log" 2>&1 ||
    { tail -20 "$root.log"; exit 1; }
  rm "$root.log"
  git clone -q "$here" "$root/src"
  # What is this machine's own: how it reaches Debian's packages and the Go module proxy.
  cp -rL /etc/apt/sources.list* /etc/apt/apt.conf.d "$root/etc/apt/"
  rm -f "$root"/etc/apt/apt.conf.d/docker-*
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  cp -L --remove-destination /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  mkdir -p "$root/old" "$root/usr/local/go" "$root/root/go/pkg/mod" "$root/root/.cache/go-build"
  GOROOT=$(go env GOROOT) MODCACHE=$(go env GOMODCACHE) GOCACHE=$(go env GOCACHE) \
    unshare --mount --propagation private "$0" --inside "$root" "$@"
  exit
fi

root=$2
shift 2
[ $# -gt 0 ] || set -- 'ONCE=1 go tool task up' 'go tool task test'
mount --bind "$root" "$root"
mount --bind "$GOROOT" "$root/usr/local/go"
if [ -z "${COLD:-}" ]; then
  mount --bind "$MODCACHE" "$root/root/go/pkg/mod"
  mount --bind "$GOCACHE" "$root/root/.cache/go-build"
fi
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
cd "$root"
pivot_root . old
umount -l /old
cd /src
settings=()
for name in GOPROXY GOFLAGS GOSUMDB SSL_CERT_FILE http_proxy https_proxy no_proxy CI; do
  [ -z "${!name-}" ] || settings+=("$name=${!name}")
done
status=0
for command; do
  echo "=== $command"
  begin=$SECONDS
  env -i HOME=/root TERM="${TERM:-dumb}" PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "${settings[@]}" bash -c "$command" </dev/null || status=1
  echo "=== ended with status $status after $((SECONDS - begin)) s"
done
exit $status
