package config

import (
	"slices"
	"strings"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
)

const masked = "<masked>"

// Shown is Kubelet with what may be secret masked, for logs and /configz.
func (c Config) Shown() *kubelet.KubeletConfiguration {
	k := c.kubelet.DeepCopy()
	for name := range k.StaticPodURLHeader {
		k.StaticPodURLHeader[name] = []string{masked}
	}
	k.StaticPodURL = manifest.ShownURL(k.StaticPodURL)
	return k
}

// ShownFlag is the value of a flag as people may see it, on /flagz and in logs: without secrets.
func ShownFlag(name, value string) string {
	switch {
	case value == "":
	case name == "manifest-url":
		return manifest.ShownURL(value)
	case name == "storage-driver-password", name == "manifest-url-header":
		return masked
	}
	return value
}

// ShownCommand is a command line with the values of its flags as people may see them.
func ShownCommand(args []string) []string {
	out := slices.Clone(args)
	before := "" // the flag whose value may be the next argument
	for i, arg := range out {
		flag, is := strings.CutPrefix(arg, "--")
		name, value, with := strings.Cut(flag, "=")
		name = strings.ReplaceAll(name, "_", "-")
		switch {
		case is && with:
			out[i], before = arg[:len(arg)-len(value)]+ShownFlag(name, value), ""
		case is:
			before = name
		default:
			out[i], before = ShownFlag(before, arg), ""
		}
	}
	return out
}
