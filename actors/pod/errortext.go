package pod

import "strings"

// idLength is that of the IDs that runtimes give (hexadecimal SHA-256).
const idLength = 64

// steady takes the IDs out of what a runtime said: of the container it makes its
// name, of anything else three dots. Otherwise each try would say something new,
// which would be an event and a status of its own each time.
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
