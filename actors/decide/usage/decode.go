package usage

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Files are the contents of the files of one cgroup, by name. A missing or unreadable file is left
// out, and its values are unknown.
type Files map[string]string

// number reads a file with one number; max is NoLimit.
func (f Files) number(name string) (uint64, bool) {
	text, ok := f[name]
	if !ok {
		return 0, false
	}
	return parse(strings.TrimSpace(text))
}

func parse(text string) (uint64, bool) {
	if text == "max" {
		return NoLimit, true
	}
	if strings.HasPrefix(text, "-") { // cgroup v1 writes -1 for no limit
		return NoLimit, true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

// keyed reads a file of lines with a name and a number.
func (f Files) keyed(name string) map[string]uint64 {
	text, ok := f[name]
	if !ok {
		return nil
	}
	out := map[string]uint64{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, ok := parse(value); ok {
			out[key] = n
		}
	}
	return out
}

// OpenLimit is the soft limit of open files in the text of /proc/PID/limits (proc(5)), -1 for none; nil if there is
// none in it.
func OpenLimit(text string) *int64 {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "Max open files")
		fields := strings.Fields(rest)
		if !ok || len(fields) == 0 {
			continue
		}
		if fields[0] == "unlimited" {
			return new(int64(-1))
		}
		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			return &n
		}
	}
	return nil
}

// IOOf is what the text of /proc/diskstats (Documentation/admin-guide/iostats.rst) says of a block device, such as
// /dev/vda1; nil if it says nothing.
func IOOf(text, device string) *DeviceIO {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 14 || "/dev/"+fields[2] != device {
			continue
		}
		var n [11]uint64
		for i := range n {
			n[i], _ = parse(fields[3+i])
		}
		ms := func(n uint64) time.Duration { return time.Duration(n) * time.Millisecond }
		return &DeviceIO{
			ReadsMerged: n[1], SectorsRead: n[2], Reading: ms(n[3]), WritesMerged: n[5], SectorsWritten: n[6], Writing: ms(n[7]),
			Current: n[8], Busy: ms(n[9]), Weighted: ms(n[10]),
		}
	}
	return nil
}

// lines counts the lines of a file.
func (f Files) lines(name string) uint64 { return uint64(strings.Count(f[name], "\n")) }

// pressure reads a PSI file; nil if there is none.
func (f Files) pressure(name string) *Pressure {
	if text, ok := f[name]; ok {
		return PressureIn(text)
	}
	return nil
}

// PressureIn parses a PSI file (Documentation/accounting/psi.rst):
//
//	some avg10=0.00 avg60=0.00 avg300=0.00 total=0
//	full avg10=0.00 avg60=0.00 avg300=0.00 total=0
func PressureIn(text string) *Pressure {
	var p Pressure
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		of := &p.Some
		if fields[0] == "full" {
			of = &p.Full
		}
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil
			}
			switch key {
			case "avg10":
				of.Avg10 = n
			case "avg60":
				of.Avg60 = n
			case "avg300":
				of.Avg300 = n
			case "total":
				of.Total = time.Duration(n) * time.Microsecond
			}
		}
	}
	return &p
}

// leftOut are the beginnings of the names of interfaces that a kubelet leaves out of its figures (cAdvisor): what goes
// through the ends of pods' networks on the node is counted again by the interface that it leaves the node by.
var leftOut = [...]string{"lo", "veth", "docker", "nerdctl"}

// Interfaces parses /proc/PID/net/dev (proc(5)), without the loopback and the node's ends of pods' networks.
func Interfaces(text string) (out []Interface) {
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		lower := strings.ToLower(name)
		if !ok || slices.ContainsFunc(leftOut[:], func(p string) bool { return strings.HasPrefix(lower, p) }) {
			continue
		}
		var n [16]uint64
		fields := strings.Fields(rest)
		if len(fields) < len(n) {
			continue
		}
		for i := range n {
			n[i], _ = parse(fields[i])
		}
		out = append(out, Interface{
			Name: name, RxBytes: n[0], RxPackets: n[1], RxErrors: n[2], RxDropped: n[3],
			TxBytes: n[8], TxPackets: n[9], TxErrors: n[10], TxDropped: n[11],
		})
	}
	return out
}

// less is a - b, at least 0: the two were read one after the other.
func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}
