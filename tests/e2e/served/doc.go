// Package served is a container runtime for tests of the real agent that need no container: the
// simulated one (cri/simcri), served on a socket in the test's process. It outlives an agent that
// is killed, as containerd does.
//
// It knows the programs of tests/images, and plays them: how they end, what they write to files and
// to the log, and what a web server answers. Pods have addresses of the machine's loopback network,
// so that probes of the agent reach them. tests/e2e/contract holds it to what the programs do on
// containerd.
//
// Commands in containers have streams, without input (exec.go). Attach and port forwarding are not played.
//
// A container with a program or a step that is not played does not start, and says so. There are
// no processes, namespaces, mounts or cgroups: a test that asks for one needs containerd.
package served
