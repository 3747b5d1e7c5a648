// Package vm shows that `troupe node` works on a host with cgroup v2 alone, whatever the machine
// has that runs the tests: it boots a virtual machine in which there is nothing else.
//
//	test ──build──► initramfs: guest program, troupe, containerd, runc, CNI plugins, images, modules
//	  │                                              │
//	  └──qemu──► Debian's kernel ──► guest as init ──► containerd ──► troupe node ──► checks
//	  ▲                                                                                  │
//	  └────────────── second serial port: one line for each check ◄──────────────────────┘
//
// The machine has four CPUs and two NUMA nodes, so that pods can be bound to one.
//
// A second machine has systemd as process 1, which becomes of the guest program and starts it again as a
// service. There, systemd makes the cgroups of pods and containers, and systemd-logind shuts the machine down.
//
// In a third one, also with systemd, the agent is what systemd starts by the unit of troupe's Debian package. apt-get
// installs, upgrades and removes it there, beside packages of Kubernetes' names, and kubeadm makes a node of the machine.
//
// The first serial port is the console: what the kernel, the guest program and, after a check that
// failed, the logs of the agent and of containerd say. A failing test prints its end.
//
// The machine needs no disk and no KVM; without KVM all in it takes about ten times as long as outside.
// That is why the apiserver that some checks need runs outside, and is reached through the emulator. What the checks are is said in [Machine.Checks]; the program that makes them is in guest.
package vm
