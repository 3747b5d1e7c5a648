#!/bin/sh
# Runs after the files have gone. The state in /var/lib/kubelet stays, also at a purge: pods run with it.
set -e
# The unit stays enabled for the package that takes its place; it is that package's own if it is there at a purge.
if [ "$1" = purge ] && [ -x /usr/bin/deb-systemd-helper ] &&
  ! [ -e /usr/lib/systemd/system/kubelet.service ] && ! [ -e /lib/systemd/system/kubelet.service ]; then
  deb-systemd-helper purge kubelet.service >/dev/null || true
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
