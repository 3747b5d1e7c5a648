// Package containerlogs decides about the logs of containers: how they are rotated, under which links collectors find
// them, and what of their end becomes a termination message.
//
// # Rotation
//
// It decides how to rotate the log of a container.
//
//	0.log.20261121-100000.gz   0.log.20261121-110000   0.log
//	rotated, compressed        rotated last            what the runtime writes
//
// It decides from the files on disk alone, one step at a time. So a restarted agent can continue after any step.
//
// # Links
//
// It decides on the symlinks in /var/log/containers, through which log collectors find the logs of containers: their
// names, and which are missing or dead.
//
//	<pod>_<namespace>_<container>-<ID>.log  ──►  <podLogsDir>/<namespace>_<pod>_<UID>/<container>/<attempt>.log
//
// Collectors take the metadata of a log from the name of its link. Names and targets are the kubelet's, so that either
// agent can use the links of the other.
//
// # Termination messages
//
// It makes the termination message of a container from the file that it wrote, or from the end of its log (core/v1
// Container terminationMessagePath and terminationMessagePolicy).
package containerlogs
