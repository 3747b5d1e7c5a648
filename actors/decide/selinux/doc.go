// Package selinux decides with which label a volume of a pod is mounted (KEP-1710: the mount option context=), so that
// the runtime need not give it to each file. Labels of files are the policy's for containers, with the level and user
// of the pod's seLinuxOptions.
package selinux
