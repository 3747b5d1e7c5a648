package isolation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// SELinuxHost is what SELinux of a machine means for the volumes of its pods. Nil: it has none, and volumes have no
// labels.
type SELinuxHost struct {
	// File is the label of files of containers in the policy of the machine, without the categories of one.
	File string
	// AllModes: volumes of all access modes are mounted with labels, and not those for one pod only (feature gate
	// SELinuxMount).
	AllModes bool
}

// parts of a label: user:role:type:level. A level may have colons.
const parts = 4

// fileLabel is the label of files of a process with these options. Role and type are those of processes, files have
// the policy's. Empty without a level: then the runtime draws one, and no one else knows it.
func (h *SELinuxHost) fileLabel(o *v1.SELinuxOptions) string {
	if o == nil || o.Level == "" {
		return ""
	}
	p := strings.SplitN(h.File, ":", parts)
	if len(p) < parts-1 {
		return ""
	}
	return strings.Join([]string{cmp.Or(o.User, p[0]), p[1], p[2], o.Level}, ":")
}

// SELinuxOption is the mount option for a label. Labels have commas, so it has quotes.
func SELinuxOption(label string) string { return fmt.Sprintf("context=%q", label) }

// SELinuxOptions adds the mount option for a label to others; it has no label if that is empty.
func SELinuxOptions(options []string, label string) []string {
	if label == "" {
		return options
	}
	return append(slices.Clone(options), SELinuxOption(label))
}

// SELinuxMounted is the label that a file system was mounted with, empty if it was with none; own: its files have
// labels of their own. options are those of the file system in mountinfo.
func SELinuxMounted(options string) (label string, own bool) {
	for options != "" {
		option, rest := options, ""
		quoted := false
		for i, c := range options {
			if c == '"' {
				quoted = !quoted
			}
			if c == ',' && !quoted {
				option, rest = options[:i], options[i+1:]
				break
			}
		}
		options = rest
		if text, is := strings.CutPrefix(option, "context="); is {
			label = strings.Trim(text, `"`)
		}
		own = own || option == "seclabel"
	}
	return label, own
}

// SameSELinuxLabel reports whether two labels mean the same. The kernel has its own way to write categories.
func SameSELinuxLabel(a, b string) bool {
	if a == b {
		return true
	}
	p, q := strings.SplitN(a, ":", parts), strings.SplitN(b, ":", parts)
	return len(p) == parts && len(q) == parts && slices.Equal(p[:parts-1], q[:parts-1]) &&
		level(p[parts-1]) == level(q[parts-1])
}

// level is a level or range of levels, written in one way: s0-s0:c1.c3 is s0-s0:c1,c2,c3.
func level(text string) string {
	low, high, is := strings.Cut(text, "-")
	low = single(low)
	if high = single(high); !is || high == low {
		return low
	}
	return low + "-" + high
}

// most is how many categories are looked at: policies have 1024.
const most = 1 << 12

func single(text string) string {
	sensitivity, categories, is := strings.Cut(text, ":")
	if !is {
		return text
	}
	var all []int
	for item := range strings.SplitSeq(categories, ",") {
		from, to, isRange := strings.Cut(item, ".")
		a, err := strconv.Atoi(strings.TrimPrefix(from, "c"))
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(strings.TrimPrefix(to, "c"))
		}
		if err != nil || a < 0 || b >= most {
			return text // not numbers: names of mcstransd, or nonsense
		}
		for c := a; c <= b; c++ {
			all = append(all, c)
		}
	}
	slices.Sort(all)
	return fmt.Sprint(sensitivity, slices.Compact(all))
}

// SELinuxConflict is what a pod waits for whose volume is mounted, or has to be, with another label, in a kubelet's
// words. Empty: there is no conflict.
func SELinuxConflict(volume, has, wants string) string {
	if SameSELinuxLabel(has, wants) {
		return ""
	}
	return fmt.Sprintf("conflicting SELinux labels of volume %s: %q and %q: it is mounted with the first until no pod of "+
		"this node uses it so: pods that share it need the same seLinuxOptions", volume, has, wants)
}
