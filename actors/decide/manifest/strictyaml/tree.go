package strictyaml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Mistake is one thing that is wrong with a document.
type Mistake struct {
	// Field is the path from the root, like spec.containers[0].image. It is
	// empty when the document could not be read at all.
	Field string
	// Value is what was found there, shortened for a message; empty when the
	// field itself should not be there.
	Value string
	// Message says what is wrong and, where it can, what would be right.
	Message string
}

// Error gives the mistake as one line.
func (m Mistake) Error() string {
	switch {
	case m.Field == "" && m.Value == "":
		return m.Message
	case m.Field == "":
		return m.Value + ": " + m.Message
	case m.Value == "":
		return m.Field + ": " + m.Message
	default:
		return m.Field + ": " + m.Value + ": " + m.Message
	}
}

// Tree is a document as maps, slices, strings, booleans, json.Numbers and nil.
type Tree = any

var (
	duplicateKey = regexp.MustCompile(`line (\d+): key (".*"|\S+) already set in map`)
	yamlPrefix   = regexp.MustCompile(
		`^(error (converting|unmarshaling|unmarshalling) (YAML|JSON)( to JSON)?: )?(yaml: )?(unmarshal errors:\s*)?`,
	)
)

// Parse reads exactly one YAML or JSON document. A stream with several is a
// mistake: nothing is dropped silently.
func Parse(data []byte) (Tree, []Mistake) {
	tree, forgivable, mistakes := ParseForgiving(data)
	if mistakes = append(mistakes, forgivable...); mistakes != nil {
		return nil, mistakes
	}
	return tree, nil
}

// ParseForgiving is Parse for callers that go on where a kubelet does: of several
// documents it reads the first, and of a key that is given twice the last value
// counts. forgiven names both.
func ParseForgiving(data []byte) (tree Tree, forgiven, mistakes []Mistake) {
	docs := Documents(data)
	switch len(docs) {
	case 0:
		return nil, nil, []Mistake{{Message: "the document is empty"}}
	case 1:
	default:
		forgiven = []Mistake{{Message: fmt.Sprintf(
			"%d YAML documents found where one is expected: put each into a file of its own", len(docs))}}
	}
	if isJSON(docs[0]) {
		tree, twice := parseJSON(docs[0])
		return tree, append(forgiven, twice...), nil
	}
	asJSON, err := yaml.YAMLToJSONStrict(docs[0])
	if err != nil && duplicateKey.MatchString(err.Error()) {
		forgiven = append(forgiven, syntaxMistakes(err)...)
		asJSON, err = yaml.YAMLToJSON(docs[0])
	}
	if err != nil {
		return nil, nil, append(forgiven, syntaxMistakes(err)...)
	}
	dec := json.NewDecoder(bytes.NewReader(asJSON))
	// Numbers stay as written: a float64 would round a large integer.
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, nil, []Mistake{{Message: "not valid JSON after conversion: " + err.Error()}}
	}
	return tree, forgiven, nil
}

// syntaxMistakes puts the parser's error into our words. Its text differs by
// kind: duplicate keys come as a list, one a line, everything else as one line.
func syntaxMistakes(err error) []Mistake {
	text := err.Error()
	if found := duplicateKey.FindAllStringSubmatch(text, -1); found != nil {
		mistakes := make([]Mistake, 0, len(found))
		for _, m := range found {
			mistakes = append(mistakes, Mistake{
				Field:   strings.Trim(m[2], `"`),
				Message: "given twice, the second time in line " + m[1] + ": keep one",
			})
		}
		return mistakes
	}
	text = yamlPrefix.ReplaceAllString(text, "")
	return []Mistake{{Message: "not valid YAML or JSON: " + strings.Join(strings.Fields(text), " ")}}
}

// Show writes a value of a Tree for a message: JSON, at most 80 bytes of it.
func Show(v Tree) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // people read it as it stands in their file
	if err := encoder.Encode(v); err != nil {
		return fmt.Sprintf("%v", v)
	}
	b := bytes.TrimSuffix(text.Bytes(), []byte("\n"))
	const limit = 80
	if len(b) > limit {
		return strings.ToValidUTF8(string(b[:limit]), "") + "…"
	}
	return string(b)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
