#!/bin/sh
# Runs before the files go: in Debian with "remove" or "upgrade", with rpm with the number of packages that stay.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl stop kubelet.service || true
  # Debian's helper leaves the unit enabled for the package that takes its place. With rpm that is the preset's affair.
  if [ "$1" = 0 ]; then
    systemctl --no-reload disable kubelet.service >/dev/null 2>&1 || true
  fi
  # What troupe told systemd-logind is its own: a kubelet writes a file of another name.
  if [ -e /etc/systemd/logind.conf.d/99-troupe.conf ]; then
    rm -f /etc/systemd/logind.conf.d/99-troupe.conf
    systemctl kill -s HUP systemd-logind.service || true
  fi
fi
echo "troupe: the node agent has stopped. Its pods go on running: install a kubelet, or troupe again, to look after them."
