package scenario

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Number is what a count is held against: 60, ">=45", "<=3".
type Number struct {
	// Op is one of "==", ">=", "<=".
	Op    string
	Value int
}

// Holds reports whether n is as asked.
func (c Number) Holds(n int) bool {
	switch c.Op {
	case ">=":
		return n >= c.Value
	case "<=":
		return n <= c.Value
	default:
		return n == c.Value
	}
}

// String is as it is written in a file.
func (c Number) String() string {
	if c.Op == "==" {
		return strconv.Itoa(c.Value)
	}
	return c.Op + strconv.Itoa(c.Value)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Number) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	}
	op, rest := "==", strings.TrimSpace(text)
	for _, o := range []string{">=", "<=", "=="} {
		if after, ok := strings.CutPrefix(rest, o); ok {
			op, rest = o, strings.TrimSpace(after)
			break
		}
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 {
		return fmt.Errorf(`must be a number, like 60, ">=45" or "<=3"`)
	}
	*c = Number{op, n}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (c Number) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }
