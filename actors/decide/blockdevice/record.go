package blockdevice

import (
	"maps"
	"slices"
	"strings"
)

// Record sets keys in a record file of open-iscsi: one "key = value" a line, between two comments. The rest stays. With
// this, secrets need not be arguments of iscsiadm, which every process of the machine can read.
func Record(text string, set map[string]string) string {
	const end = "# END RECORD"
	rest := maps.Clone(set)
	var out strings.Builder
	missing := func() {
		for _, key := range slices.Sorted(maps.Keys(rest)) {
			out.WriteString(key + " = " + rest[key] + "\n")
		}
		clear(rest)
	}
	for line := range strings.Lines(text) {
		key, _, ok := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		if value, is := set[key]; ok && is {
			if _, first := rest[key]; first {
				out.WriteString(key + " = " + value + "\n")
				delete(rest, key)
			}
			continue
		}
		if strings.HasPrefix(line, end) {
			missing()
		}
		out.WriteString(line)
	}
	missing()
	return out.String()
}
