package strictyaml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// isJSON tells whether a document is JSON and not YAML in flow style. JSON is
// read as such, like kubectl and the kubelet do: a YAML parser refuses some
// characters that JSON allows in strings.
func isJSON(doc []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(doc), []byte("{")) && json.Valid(doc)
}

// parseJSON reads a valid JSON document and notes keys given twice, which
// encoding/json lets pass.
func parseJSON(doc []byte) (Tree, []Mistake) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	r := &jsonReader{dec: dec}
	tree := r.value("")
	return tree, r.mistakes
}

type jsonReader struct {
	dec      *json.Decoder
	mistakes []Mistake
}

func (r *jsonReader) token() json.Token {
	token, err := r.dec.Token()
	if err != nil {
		panic(fmt.Sprintf("strictyaml: valid JSON turned out not to be: %v", err))
	}
	return token
}

// value reads the next value; at is its path. Nesting is bounded by json.Valid.
func (r *jsonReader) value(at string) Tree {
	switch token := r.token(); token {
	case json.Delim('{'):
		m := map[string]any{}
		for r.dec.More() {
			key, ok := r.token().(string)
			if !ok {
				panic("strictyaml: a JSON key that is no string")
			}
			path := joinField(at, key)
			if _, twice := m[key]; twice {
				r.mistakes = append(r.mistakes, Mistake{Field: path, Message: "given twice: keep one"})
			}
			m[key] = r.value(path)
		}
		r.token() // }
		return m
	case json.Delim('['):
		list := []any{}
		for r.dec.More() {
			list = append(list, r.value(at+"["+strconv.Itoa(len(list))+"]"))
		}
		r.token() // ]
		return list
	default:
		return token
	}
}
