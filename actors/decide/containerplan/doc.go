// Package containerplan decides what a container is created with: its variables, its mounts, the container whose
// processes it shares, and the runtime handler.
//
//	New ─► read Plan.EnvFiles ─► Resolve ─► make Resolved.SubPaths ─► create the container
//
// The steps are pure. The pod's actor makes the calls between them. What speaks the CRI's types is in cri/translate.
//
// All errors say that the container cannot be created as its pod asks. Their words are those that users know from the
// kubelet.
//
// # Variables
//
// [EnvironmentOf] decides the environment of a container.
//
// [ParseEnvFile] reads environment files that containers write for others (core/v1 FileKeySelector, KEP-3721).
//
// The format is the subset of shell syntax that all shells read alike:
//
//	# a comment
//	NAME='value, over as many lines as it wants'  # and a comment
//
// Values have no escapes. "NAME= " sets NAME to nothing, as in a shell; "NAME= 'x'" is an error, as a shell would set
// NAME for a command x. "export NAME='x'" sets nothing that anybody can ask for, as with a kubelet, and the lines after
// it count.
//
// [Expansion] replaces variable references in commands, arguments and values.
//
// A reference of six bytes may stand for a value of a mebibyte, and a value may be made of a hundred thousand
// references. So what is made has a limit, which is looked at before it is made.
//
// # Host name
//
// [Hostname] and [HostsFile] decide a pod's host name and the content of its /etc/hosts.
package containerplan
