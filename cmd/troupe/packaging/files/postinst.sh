#!/bin/sh
# Runs after the files are there: in Debian with "configure", with rpm with a number.
set -e
# A machine of Debian may forbid its packages to start and stop services (policy-rc.d).
allowed() { ! [ -x /usr/sbin/policy-rc.d ] || /usr/sbin/policy-rc.d kubelet "$1" || [ $? != 101 ]; }
if [ -x /usr/bin/deb-systemd-helper ]; then
  # The package kubelet may have masked its unit when it was removed.
  deb-systemd-helper unmask kubelet.service >/dev/null || true
  if deb-systemd-helper --quiet was-enabled kubelet.service; then
    deb-systemd-helper enable kubelet.service >/dev/null || true
  else
    deb-systemd-helper update-state kubelet.service >/dev/null || true
  fi
elif [ "$1" = 1 ] && [ -x /usr/bin/systemctl ]; then
  systemctl preset kubelet.service >/dev/null 2>&1 || true
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  # Pods do not notice: the agent adopts what runs. Where nobody enabled it, as before kubeadm join, it stays off.
  if systemctl -q is-enabled kubelet.service 2>/dev/null && allowed restart; then
    systemctl restart --no-block kubelet.service || true
  fi
fi
