package scenario

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-dev/troupe/actors/decide/manifest/strictyaml"
)

// Problem is one thing that is wrong with a scenario file.
type Problem struct {
	File string
	// Line is counted from 1; 0 if the file as a whole is meant.
	Line int
	// Field is the path, steps[2].create.replicas; empty for the whole file.
	Field   string
	Message string
}

func (p Problem) String() string {
	s := p.File
	if p.Line > 0 {
		s += ":" + strconv.Itoa(p.Line)
	}
	if p.Field != "" {
		s += ": " + p.Field
	}
	return s + ": " + p.Message
}

// Error is every problem of a file, a line each.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// maxSize bounds a scenario file, in bytes.
const maxSize = 1 << 20

// Load reads and checks a file.
func Load(path string, g Given) (*File, error) {
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, g)
}

// Read reads a file that may be a scenario: a regular one, and not large.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", path)
	} else if err == nil && info.Size() > maxSize {
		err = fmt.Errorf("%s: %d bytes: a scenario has at most %d", path, info.Size(), maxSize)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Given is what the run has besides the file, that its steps are checked with.
type Given struct {
	// Nodes goes before the file's nodes.count, if it is one that can be; 0 for none.
	Nodes int
	// OwnPods says that the run makes pods itself, the workload OwnWorkload.
	OwnPods bool
}

// OwnWorkload and OwnImage are of the pods that a run makes itself.
const (
	OwnWorkload = "pods"
	OwnImage    = "registry.test/app:v1"
)

// Parse reads and checks a scenario; name is the file's, for messages. The
// error is an *Error.
func Parse(name string, data []byte, g Given) (*File, error) {
	f := &File{}
	at := linesOf(data)
	var problems []Problem
	for _, m := range strictyaml.Decode(data, f) {
		message := m.Message
		if m.Value != "" {
			message = m.Value + ": " + message
		}
		problems = append(problems, Problem{name, at.line(m.Field), m.Field, message})
	}
	if problems == nil {
		for _, m := range f.check(g) {
			problems = append(problems, Problem{name, at.line(m.field), m.field, m.message})
		}
	}
	if problems == nil {
		for i := range f.Steps {
			f.Steps[i].Line = at.line(fmt.Sprintf("steps[%d]", i))
		}
		return f, nil
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
	return nil, &Error{problems}
}

// lines is where each field of a document is, by its path.
type lines map[string]int

func linesOf(data []byte) lines {
	out := lines{}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) != 1 {
		return out // the decoder says what is wrong with it
	}
	out.walk(doc.Content[0], "")
	return out
}

func (l lines) walk(n *yaml.Node, at string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			field := key.Value
			if at != "" {
				field = at + "." + key.Value
			}
			l[field] = key.Line
			l[at+"["+key.Value+"]"] = key.Line // how keys of maps are told
			l.walk(value, field)
		}
	case yaml.SequenceNode:
		for i, value := range n.Content {
			field := at + "[" + strconv.Itoa(i) + "]"
			l[field] = value.Line
			l.walk(value, field)
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
}

// line is that of the field, or of the nearest that it is in.
func (l lines) line(field string) int {
	for field != "" {
		if n, ok := l[field]; ok {
			return n
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return 0
}
