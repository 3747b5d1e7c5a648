package containerplan

import (
	"fmt"
	"strings"
)

// MaxEnvFile is the maximum size of a file, in bytes.
const MaxEnvFile = 1 << 20

// EnvFileValues is what a file sets. Its errors name the line but never quote it, because it may be a secret.
type EnvFileValues struct {
	values map[string]string
	bytes  int
	// err is about the first line that can't be read. What stands before it counts.
	err error
}

// Value returns the first value of a key; found is false if there is none. It does not care for what
// follows the key.
func (f *EnvFileValues) Value(key string) (value string, found bool, err error) {
	if value, found = f.values[key]; found {
		return value, true, nil
	}
	return "", false, f.err
}

// Bytes is how many bytes are kept of it.
func (f *EnvFileValues) Bytes() int { return f.bytes }

// ParseEnvFile reads a file for these keys, in time linear in its length. Nothing else of it is kept.
func ParseEnvFile(data []byte, keys ...string) *EnvFileValues {
	wanted := make(map[string]bool, len(keys))
	for _, k := range keys {
		wanted[k] = true
	}
	p := parser{rest: string(data), more: true}
	f := &EnvFileValues{values: map[string]string{}}
	for p.more && f.err == nil {
		p.next()
		name, value, what := p.assignment()
		if what != "" {
			f.err = fmt.Errorf("line %d: %s", p.number, what)
		} else if wanted[name] {
			wanted[name] = false // the first one counts
			name, value = strings.Clone(name), strings.Clone(value)
			f.values[name] = value
			f.bytes += len(name) + len(value)
		}
	}
	return f
}

// parser goes through a file line by line.
type parser struct {
	line   string // without its end
	number int    // from 1
	rest   string // what follows the line
	more   bool   // something follows
}

func (p *parser) next() {
	p.line, p.rest, p.more = strings.Cut(p.rest, "\n")
	p.number++
}

// assignment reads what begins in this line: no name is none, what is why it can't be read.
func (p *parser) assignment() (name, value, what string) {
	line := blanks(strings.TrimSuffix(p.line, "\r"))
	if line == "" || line[0] == '#' {
		return "", "", ""
	}
	name, rest, ok := strings.Cut(line, "=")
	switch {
	case !ok:
		return "", "", "there is no ="
	case name == "":
		return "", "", "there is no name before the ="
	case strings.TrimRight(name, " \t") != name:
		return "", "", "there must be no space before the ="
	case rest != "" && (rest[0] == ' ' || rest[0] == '\t'):
		if rest = blanks(rest); rest != "" && rest[0] != '#' {
			return "", "", "there must be no space behind the ="
		}
		return name, "", ""
	case rest == "" || rest[0] != '\'':
		return "", "", "the value must be in single quotes"
	}
	value, after, ok := strings.Cut(rest[1:], "'")
	if !ok {
		end := strings.IndexByte(p.rest, '\'')
		if end < 0 {
			return "", "", "the quote is not closed"
		}
		value = strings.ReplaceAll(value+"\n"+p.rest[:end], "\r\n", "\n") // as at the end of other lines
		p.number += 1 + strings.Count(p.rest[:end], "\n")
		after, p.rest, p.more = strings.Cut(p.rest[end+1:], "\n")
	}
	if after = blanks(strings.TrimSuffix(after, "\r")); after != "" && after[0] != '#' {
		return "", "", "unexpected text after the closing quote"
	}
	return name, value, ""
}

func blanks(s string) string { return strings.TrimLeft(s, " \t") }
