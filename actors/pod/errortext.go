package pod

import "strings"

// idLength is the length of a runtime's IDs (hexadecimal SHA-256).
const idLength = 64

// steady removes IDs from a runtime's message. The container's ID becomes its name, any other
// becomes three dots. Otherwise each attempt would have a new message, and so a new event and a
// new status.
func steady(message, id, name string) string {
	if id != "" && name != "" {
		message = strings.ReplaceAll(message, id, name)
	}
	var out strings.Builder
	for i := 0; i < len(message); {
		n := 0
		for i+n < len(message) && isHex(message[i+n]) {
			n++
		}
		switch {
		case n == idLength && !strings.HasSuffix(message[:i], "sha256:"): // a digest is the same each time
			out.WriteString("...")
		case n == 0:
			n = 1
			fallthrough
		default:
			out.WriteString(message[i : i+n])
		}
		i += n
	}
	return out.String()
}

func isHex(b byte) bool { return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' }
