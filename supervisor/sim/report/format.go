package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// count groups digits by thousands: 1,234,567.
func count[N int | uint32 | uint64](n N) string {
	digits := strconv.FormatUint(uint64(n), 10)
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// some is a count with its noun: 1 pod, 2 pods.
func some[N int | uint32 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// axisCount is short enough for an axis: 500, 1.5k, 20M.
func axisCount(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.size {
			return strconv.FormatFloat(n/unit.size, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// significant has three digits that count, or all digits before the point.
func significant(x float64) string {
	switch {
	case x >= 99.95:
		return count(uint64(math.Round(x)))
	case x >= 9.995:
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
}

// size is an amount of memory.
func size(n uint64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	if n < 1024 {
		return count(n) + " B"
	}
	x := float64(n) / 1024
	for x >= 1024 && len(units) > 1 {
		x, units = x/1024, units[1:]
	}
	return significant(x) + " " + units[0]
}

// span says how long something took, with about three digits that count.
func span(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < time.Millisecond:
		return trimmed(float64(d)/float64(time.Microsecond)) + " µs"
	case d < time.Second:
		return trimmed(float64(d)/float64(time.Millisecond)) + " ms"
	case d < time.Minute:
		return trimmed(d.Seconds()) + " s"
	default:
		return clock(d)
	}
}

// trimmed is significant without zeros at the end.
func trimmed(x float64) string {
	s := significant(x)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// clock is a time of the run: 0s, 1.5s, 2m 05s, 26h 00m 07s. Fractions are shown in the first minute
// alone.
func clock(d time.Duration) string {
	if d < time.Minute {
		return strconv.FormatFloat(math.Round(d.Seconds()*1000)/1000, 'f', -1, 64) + "s"
	}
	s := int(d.Round(time.Second) / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%dm %02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh %02dm %02ds", s/3600, s/60%60, s%60)
}

// axisTime is a time of the run as short as can be: 0, 1.5s, 30m, 1h30m.
func axisTime(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Second:
		return strings.ReplaceAll(span(d), " ", "")
	case d < time.Minute:
		return clock(d)
	default:
		s := d.Round(time.Second).String() // 1h0m0s
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
		return s
	}
}

// shell writes a command so that a shell reads it as the same words.
func shell(command []string) string {
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = w
		if w == "" || strings.IndexFunc(w, special) >= 0 {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// special reports whether a shell may take the character for something else than itself.
func special(r rune) bool {
	plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./-_", r)
	return !plain
}

// short leaves out the middle of a text that has more characters than n: names differ at both ends.
func short(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	head := n / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(n-1-head):])
}
