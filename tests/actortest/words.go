package actortest

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// words say in short what a message says: objects by their kinds and names, pods and IDs by names that are the same in
// each run. Times, large numbers, numbers of effects, actors and functions are left out.
type words struct {
	// names are those of pods by UID, and of other IDs.
	names map[string]string
	ids   int
}

const (
	module = "github.com/troupe-dev/troupe/"
	// deepest is how many structs within one another are shown, longest how much of a message.
	deepest, longest = 3, 150
	// largest numbers are times in nanoseconds, and counters that begin anew with each incarnation of an actor.
	largest = 1 << 32
)

// id is a UID, or an ID of a runtime.
var id = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{12,}`)

// plain is a text with names in place of IDs.
func (w *words) plain(text string) string {
	return id.ReplaceAllStringFunc(text, func(id string) string {
		if w.names[id] == "" {
			w.ids++
			w.names[id] = fmt.Sprintf("#%d", w.ids)
		}
		return w.names[id]
	})
}

// nameOf is the kind of a message.
func nameOf(m any) string {
	t := reflect.TypeOf(m)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// of is what a message says, after a colon; empty if it says nothing.
func (w *words) of(m any) string {
	text := w.value(reflect.ValueOf(m), 0)
	if text == "" {
		return ""
	}
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "…"
	}
	return ": " + text
}

func (w *words) value(v reflect.Value, depth int) string {
	if !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return ""
	}
	if v.Kind() == reflect.Interface {
		return w.value(v.Elem(), depth)
	}
	if text, is := w.known(v); is {
		return text
	}
	ours := strings.HasPrefix(v.Type().PkgPath(), module)
	switch {
	case v.Kind() == reflect.Pointer:
		if strings.HasPrefix(v.Type().Elem().PkgPath(), module) {
			return w.value(v.Elem(), depth)
		}
	case v.Kind() == reflect.Struct && ours && depth < deepest:
		return w.fields(v, depth+1)
	case v.Kind() == reflect.Slice && ours && strings.HasPrefix(v.Type().Name(), "Map["): // smallmap.Map
		var parts []string
		for i := range v.Len() {
			parts = append(parts, w.pair(v.Index(i).Field(0), v.Index(i).Field(1), depth))
		}
		return list(parts)
	case v.Kind() == reflect.Slice && v.Len() > 0 && v.Type().Elem().Kind() == reflect.Uint8:
		return fmt.Sprintf("%d bytes", v.Len())
	case v.Kind() == reflect.Slice, v.Kind() == reflect.Array:
		var parts []string
		for i := range v.Len() {
			parts = append(parts, w.value(v.Index(i), depth))
		}
		return list(parts)
	case v.Kind() == reflect.Map:
		var parts []string
		for _, k := range v.MapKeys() {
			parts = append(parts, w.pair(k, v.MapIndex(k), depth))
		}
		slices.Sort(parts)
		return list(parts)
	case v.Kind() == reflect.String:
		return w.plain(v.String())
	case v.Kind() == reflect.Bool && v.Bool():
		return "yes"
	case v.CanInt() && v.Int() != 0 && v.Int() < largest, v.CanUint() && v.Uint() != 0 && v.Uint() < largest,
		v.CanFloat() && v.Float() != 0:
		return fmt.Sprint(v)
	}
	return ""
}

// known is what a value says of which more is known than its type. It is false for others.
func (w *words) known(v reflect.Value) (text string, is bool) {
	switch t := v.Type(); {
	case t == reflect.TypeFor[time.Time](), t == reflect.TypeFor[kernel.EffectID](),
		strings.HasPrefix(t.Name(), "Ref[") && strings.HasSuffix(t.PkgPath(), "/kernel"):
		return "", true
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		if x == 0 {
			return "", true
		}
		return x.String(), true
	case resource.Quantity:
		return x.String(), true
	case *v1.PodStatus:
		return podstatus.Line(x), true
	case metav1.Object:
		return strings.ToLower(nameOf(x)) + " " + w.plain(x.GetName()), true
	case error:
		return "fails: " + w.plain(x.Error()), true
	case fmt.Stringer:
		t := v.Type()
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		return w.plain(x.String()), strings.HasPrefix(t.PkgPath(), module)
	}
	return "", false
}

// list is a few parts, or how many there are.
func list(parts []string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	switch {
	case len(parts) == 0:
		return ""
	case len(parts) > 3:
		return fmt.Sprintf("%d of them", len(parts))
	}
	return "[" + strings.Join(parts, "; ") + "]"
}

func (w *words) pair(k, v reflect.Value, depth int) string {
	key, value := w.value(k, depth), w.value(v, depth)
	if value == "" {
		return key
	}
	return key + ": " + value
}

// fields are those of a struct that say something, exported or not.
func (w *words) fields(v reflect.Value, depth int) string {
	if !v.CanAddr() {
		whole := reflect.New(v.Type()).Elem()
		whole.Set(v)
		v = whole
	}
	var parts []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		value := w.value(reflect.NewAt(f.Type, unsafe.Pointer(v.Field(i).UnsafeAddr())).Elem(), depth)
		label := spaced(f.Name)
		switch {
		case value == "":
		case f.Anonymous, strings.HasPrefix(value, label), strings.HasPrefix(value, "fails: "):
			parts = append(parts, value)
		case value == "yes":
			parts = append(parts, label)
		case strings.Contains(value, ", ") && !strings.HasPrefix(value, "["):
			parts = append(parts, label+" ("+value+")")
		default:
			parts = append(parts, label+" "+value)
		}
	}
	return strings.Join(parts, ", ")
}

// spaced is the name of a field in words: FirstSandbox is first sandbox.
func spaced(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if unicode.IsUpper(r) && lower {
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
