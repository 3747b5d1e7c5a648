// Package config reads the configuration of troupe node: command line flags with the
// kubelet's names, and the KubeletConfiguration file.
//
//	flags := config.NewFlags()
//	flags.AddTo(command.Flags())             // before parsing
//	cfg, err := config.Load(flags, os.DirFS("/"), workDir)
//
// Later wins: defaults, the file of --config, the drop-ins of --config-dir in
// the order of their names, flags given on the command line (Kubernetes
// documentation, "Set Kubelet Parameters Via A Configuration File"). Maps given
// by a flag replace the file's; feature gates add to them.
//
// What ends the start of a kubelet is an error; all errors are collected into
// one message that names file or flag, field and value. What a kubelet starts
// with although it can't do it is a warning (docs/decisions/0081).
//
// Loading only reads. The package claims and changes nothing; that is
// config/rootdir.
package config
