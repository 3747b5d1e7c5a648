#!/bin/sh
# Makes a Debian with the package kubelet of the mount namespace that it runs in, and is its init. What packages change is
# in memory, and gone with the namespace. The first argument is the directory of what belongs to the machine; the others
# are the agent's, each flag with its value. kubeadm would have written them where they are written here.
set -eu
dir=$1
shift
extra=
while [ $# -gt 0 ]; do
	case $1 in
	--config) config=$2 ;;
	--kubeconfig) kubeconfig=$2 ;;
	*) extra="$extra $1=$2" ;;
	esac
	[ "$1" != --root-dir ] || root=$2
	shift 2
done

# No mount from here on is seen outside, but those below the root directory, which is a shared mount of its own.
for at in "$dir" /usr /etc /var /run; do
	mount --make-private "$(findmnt -n -o TARGET -T "$at")"
done
mkdir "$dir/changed"
mount -t tmpfs changed "$dir/changed"
for top in usr etc var; do
	mkdir "$dir/changed/$top" "$dir/changed/$top.work"
	mount -t overlay overlay -o "lowerdir=/$top,upperdir=$dir/changed/$top,workdir=$dir/changed/$top.work" "/$top"
done
mkdir -p /run/systemd
mount -t tmpfs run /run/systemd
mkdir /run/systemd/system
cp "$dir/systemctl" "$dir/journalctl" /usr/bin/
rm -f /usr/sbin/policy-rc.d # of a host in a container, where packages start nothing

# Pods are below the root directory, where the runtime sees them. /var/lib/kubelet is another name of it.
rm -rf /var/lib/kubelet
ln -s "$root" /var/lib/kubelet
mkdir -p /etc/kubernetes /usr/lib/systemd/system/kubelet.service.d
cp "$config" /var/lib/kubelet/config.yaml
cp "$kubeconfig" /etc/kubernetes/kubelet.conf
cp "$dir/10-kubeadm.conf" /usr/lib/systemd/system/kubelet.service.d/
# dpkg knows nothing but what the packages depend on: what happens to the host's packages meanwhile is not seen here. A
# directory that another package has too stays when a package is removed. Else dpkg would take the link away. A package
# without a file of its own would disappear with the next one.
mount -t tmpfs dpkg /var/lib/dpkg
mkdir /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers
for package in mount util-linux; do
	touch "/usr/bin/of-$package"
	printf '%s\n' /. /usr /usr/bin "/usr/bin/of-$package" /var /var/lib /var/lib/kubelet >"/var/lib/dpkg/info/$package.list"
	printf 'Package: %s\nStatus: install ok installed\nVersion: 1\nArchitecture: %s\nMaintainer: n\nDescription: d\n\n' \
		"$package" "$(dpkg --print-architecture)" >>/var/lib/dpkg/status
done
rm -f /etc/apt/sources.list.d/* /var/lib/apt/extended_states
echo "deb [trusted=yes] file:$dir/repository ./" >/etc/apt/sources.list
apt-get update -qq
apt-get install -qq -y kubelet
printf 'KUBELET_EXTRA_ARGS="%s"\n' "$extra" >/etc/default/kubelet
systemctl enable --now kubelet
apt-mark hold kubelet

trap 'systemctl stop kubelet; kill $!; exit 0' TERM
sleep infinity &
wait
