package strictyaml

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Decode reads one document into out, a pointer to an API type, and returns
// every mistake in it. When it returns any, out is not touched.
func Decode(data []byte, out any) []Mistake {
	tree, mistakes := Parse(data)
	if mistakes != nil {
		return mistakes
	}
	return DecodeTree(tree, "", out)
}

// DecodeTree is Decode for a document that was parsed already. at is the path
// of tree in its document, for messages.
func DecodeTree(tree Tree, at string, out any) []Mistake {
	c := &checker{}
	return c.decode(tree, at, out)
}

// DecodeForgiving is DecodeTree for callers that go on where a kubelet does: without
// the fields that the type does not have. forgiven names them, and they are removed
// from tree.
func DecodeForgiving(tree Tree, at string, out any) (forgiven, mistakes []Mistake) {
	c := &checker{forgives: true}
	mistakes = c.decode(tree, at, out)
	return c.forgiven, mistakes
}

func (c *checker) decode(tree Tree, at string, out any) []Mistake {
	target := reflect.TypeOf(out)
	if target.Kind() != reflect.Pointer {
		panic(fmt.Sprintf("strictyaml: decode into %T, which is no pointer", out))
	}
	c.check(tree, target.Elem(), at)
	if len(c.mistakes) > 0 {
		return c.mistakes
	}
	raw, err := json.Marshal(tree)
	if err == nil {
		fresh := reflect.New(target.Elem())
		if err = json.Unmarshal(raw, fresh.Interface()); err == nil {
			reflect.ValueOf(out).Elem().Set(fresh.Elem())
			return nil
		}
	}
	// The walk above accepts only what the types accept; this is the answer
	// for a type with an opinion of its own that the walk does not know.
	return []Mistake{{Field: at, Message: err.Error()}}
}

type checker struct {
	mistakes []Mistake
	// forgives: unknown fields are removed, and are in forgiven instead of in mistakes.
	forgives bool
	forgiven []Mistake
}

func (c *checker) add(field, value, format string, args ...any) {
	c.mistakes = append(c.mistakes, Mistake{Field: field, Value: value, Message: fmt.Sprintf(format, args...)})
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// check walks the document and the type together. The type bounds the depth:
// no API type read here contains itself.
func (c *checker) check(v Tree, t reflect.Type, at string) {
	for t.Kind() == reflect.Pointer {
		if t.Implements(unmarshaler) {
			break
		}
		t = t.Elem()
	}
	if v == nil {
		return // null is the same as not given
	}
	if t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		c.checkOwnUnmarshaler(v, t, at)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		c.checkStruct(v, t, at)
	case reflect.Map:
		m, ok := v.(map[string]any)
		if !ok {
			c.wrongType(v, at, "a map")
			return
		}
		for _, k := range sortedKeys(m) {
			c.check(m[k], t.Elem(), joinKey(at, k))
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			c.checkBytes(v, at)
			return
		}
		list, ok := v.([]any)
		if !ok {
			c.wrongType(v, at, "a list")
			return
		}
		for i, item := range list {
			c.check(item, t.Elem(), at+"["+strconv.Itoa(i)+"]")
		}
	case reflect.String:
		if _, ok := v.(string); !ok {
			c.wrongType(v, at, "a string")
		}
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			c.wrongType(v, at, "true or false")
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.checkInteger(v, t, at)
	case reflect.Float32, reflect.Float64:
		n, ok := v.(json.Number)
		if !ok {
			c.wrongType(v, at, "a number")
			return
		}
		if _, err := strconv.ParseFloat(n.String(), t.Bits()); err != nil {
			c.add(at, n.String(), "out of range")
		}
	case reflect.Interface:
		// anything goes
	default:
		panic(fmt.Sprintf("strictyaml: no rule for Go type %s at %s", t, at))
	}
}

func (c *checker) checkStruct(v Tree, t reflect.Type, at string) {
	m, ok := v.(map[string]any)
	if !ok {
		c.wrongType(v, at, "a map")
		return
	}
	fields := fieldsOf(t)
	for _, k := range sortedKeys(m) {
		ft, known := fields[k]
		if !known {
			message := "unknown field"
			if near := nearest(k, fields); near != "" {
				message += ": did you mean " + near + "?"
			}
			if c.forgives {
				c.forgiven = append(c.forgiven, Mistake{Field: joinField(at, k), Message: message})
				delete(m, k) // json.Unmarshal would take one whose name differs by its case
				continue
			}
			c.add(joinField(at, k), "", "%s", message)
			continue
		}
		c.check(m[k], ft, joinField(at, k))
	}
}

// checkOwnUnmarshaler asks types such as resource.Quantity, metav1.Duration
// and metav1.Time themselves.
func (c *checker) checkOwnUnmarshaler(v Tree, t reflect.Type, at string) {
	raw, err := json.Marshal(v)
	if err != nil {
		c.add(at, "", "%v", err)
		return
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	into := reflect.New(t)
	if err := json.Unmarshal(raw, into.Interface()); err != nil {
		c.add(at, Show(v), "%s", ownTypeMessage(t, err))
	}
}

// ownTypeMessage replaces messages that speak of Go types or regular
// expressions by what a user has to write.
func ownTypeMessage(t reflect.Type, err error) string {
	switch t.Name() {
	case "Quantity", "QuantityValue":
		return "must be a quantity, like 100m, 64Mi or 2"
	case "Duration", "TimeOrMetaDuration":
		return "must be a duration, like 300ms, 10s or 1h30m"
	case "Time", "MicroTime":
		return "must be a time, like 2026-01-02T15:04:05Z"
	case "IntOrString":
		return "must be a number or a string"
	}
	return err.Error()
}

func (c *checker) checkBytes(v Tree, at string) {
	s, ok := v.(string)
	if !ok {
		c.wrongType(v, at, "a base64 string")
		return
	}
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		c.add(at, Show(v), "must be base64")
	}
}

func (c *checker) checkInteger(v Tree, t reflect.Type, at string) {
	n, ok := v.(json.Number)
	if !ok {
		c.wrongType(v, at, "a whole number")
		return
	}
	var err error
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
		_, err = strconv.ParseUint(n.String(), 10, t.Bits())
	} else {
		_, err = strconv.ParseInt(n.String(), 10, t.Bits())
	}
	if err == nil {
		return
	}
	if strings.ContainsAny(n.String(), ".eE") {
		c.add(at, n.String(), "must be a whole number")
	} else {
		c.add(at, n.String(), "out of range for this field")
	}
}

func (c *checker) wrongType(v Tree, at, want string) {
	hint := ""
	if want == "a string" {
		switch v.(type) {
		case bool, json.Number:
			hint = ": put it in quotes"
		}
	}
	c.add(at, Show(v), "must be %s, not %s%s", want, kindOf(v), hint)
}

func kindOf(v Tree) string {
	switch v.(type) {
	case map[string]any:
		return "a map"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	default:
		return "a number"
	}
}
