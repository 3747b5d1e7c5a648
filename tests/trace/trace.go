// Package trace shows that the hash over a simulated run sees all contents of all messages: each field of each message of
// each actor is changed in turn, and each change must give another hash.
package trace

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// Package is what one package declares: the interface of its sum type, and all types that can have values.
type Package struct {
	Path  string
	Sums  []reflect.Type
	Types []reflect.Type
}

// Report is what was found.
type Report struct {
	// Messages are all types that are messages, as package.name.
	Messages []string
	Changes  int
	// Unseen are fields that may change without another hash.
	Unseen []string
}

// Check changes each field of the messages of the packages below actors that are actors. The other packages declare
// what may be in a message.
func Check(packages []Package) *Report {
	c := &checker{hash: traced}
	for _, p := range packages {
		for _, t := range p.Types {
			c.values = append(c.values, t, reflect.PointerTo(t))
		}
	}
	for _, p := range packages {
		if strings.Contains(p.Path, "/decide/") || strings.HasSuffix(p.Path, "/port") {
			continue
		}
		for _, t := range p.Types {
			for _, sum := range p.Sums {
				if t.Implements(sum) {
					c.message(t)
				} else if reflect.PointerTo(t).Implements(sum) {
					c.message(reflect.PointerTo(t))
				}
			}
		}
	}
	return &c.found
}

// checker changes one message.
type checker struct {
	hash   func(message any) uint64
	found  Report
	values []reflect.Type // of the fields that are interfaces

	root reflect.Value
	// usual is the hash before the change.
	usual uint64
	// within are the types of what leads to the field: a type is not looked into again inside itself.
	within map[reflect.Type]bool
}

// objects are API objects for fields that can have any.
var objects = []any{&v1.ConfigMap{}, &v1.Pod{}}

func (c *checker) message(t reflect.Type) {
	c.found.Messages = append(c.found.Messages, t.String())
	c.root, c.within = reflect.New(t).Elem(), map[reflect.Type]bool{}
	c.usual = c.hash(c.root.Interface())
	c.vary(c.root, t.String(), func() {})
}

func traced(message any) uint64 {
	h := kernel.NewHashTracer()
	h.Deliver(time.Unix(0, 0), "", "", message)
	return h.Sum()
}

// with puts x into v, wants another hash, does more with it as the usual, and puts back what was there. write tells what
// v is a copy of.
func (c *checker) with(v, x reflect.Value, place string, write func(), more func()) {
	before, usual := reflect.New(v.Type()).Elem(), c.usual
	before.Set(v)
	v.Set(x)
	write()
	c.found.Changes++
	if c.usual = c.hash(c.root.Interface()); c.usual == usual {
		c.found.Unseen = append(c.found.Unseen, place)
	}
	if more != nil {
		more()
	}
	v.Set(before)
	write()
	c.usual = usual
}

// vary changes v, which is empty, and all that is in it.
func (c *checker) vary(v reflect.Value, place string, write func()) {
	t := v.Type()
	if x, ok := whole(t); ok {
		c.with(v, x, place, write, nil)
		return
	}
	if c.within[t] {
		return
	}
	c.within[t] = true
	defer delete(c.within, t)
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if says(t, f) {
				x := v.FieldByIndex(f.Index)
				x = reflect.NewAt(f.Type, x.Addr().UnsafePointer()).Elem() // also if it is not exported
				c.vary(x, place+"."+f.Name, write)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			c.vary(v.Index(i), fmt.Sprintf("%s[%d]", place, i), write)
		}
	case reflect.Pointer:
		x := reflect.New(t.Elem())
		c.with(v, x, place, write, func() { c.vary(x.Elem(), place, write) })
	case reflect.Slice:
		c.with(v, reflect.MakeSlice(t, 0, 0), place+"[:0]", write, nil)
		x := reflect.MakeSlice(t, 1, 1)
		c.with(v, x, place+"[:1]", write, func() { c.vary(x.Index(0), place+"[0]", write) })
	case reflect.Map:
		c.mapping(v, place, write)
	case reflect.Interface:
		c.either(v, place, write)
	default:
		panic(fmt.Sprintf("%s is a %s: say how it is changed", place, t))
	}
}

// whole is another value of a type that is changed as a whole: what has no parts, and what is read in its own way.
func whole(t reflect.Type) (reflect.Value, bool) {
	x := reflect.New(t).Elem()
	switch t {
	case reflect.TypeFor[time.Time]():
		return reflect.ValueOf(time.Unix(1, 1)), true
	case reflect.TypeFor[resource.Quantity]():
		return reflect.ValueOf(resource.MustParse("1500m")), true
	}
	switch k := t.Kind(); {
	case k == reflect.Bool:
		x.SetBool(true)
	case x.CanInt():
		x.SetInt(1)
	case x.CanUint():
		x.SetUint(1)
	case x.CanFloat():
		x.SetFloat(1)
	case k == reflect.String:
		x.SetString("x")
	case k == reflect.Func:
		x.Set(reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value { return nil }))
	case k == reflect.Chan:
		x.Set(reflect.MakeChan(reflect.ChanOf(reflect.BothDir, t.Elem()), 0).Convert(t))
	default:
		return x, false
	}
	return x, true
}

func (c *checker) mapping(v reflect.Value, place string, write func()) {
	t := v.Type()
	c.with(v, reflect.MakeMap(t), place+"{}", write, nil)
	x, key, value := reflect.MakeMap(t), reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
	again := func() {
		x.Clear()
		x.SetMapIndex(key, value)
		write()
	}
	again()
	c.with(v, x, place+"{x}", write, func() {
		c.vary(key, place+"{key}", again)
		c.vary(value, place+"{value}", again)
	})
}

// either has an interface hold each of the types that it can.
func (c *checker) either(v reflect.Value, place string, write func()) {
	t, n := v.Type(), 0
	if t.Implements(reflect.TypeFor[error]()) {
		for _, err := range []error{errors.New("x"), errors.New("y"), fmt.Errorf("y%w", errors.ErrUnsupported)} {
			c.with(v, reflect.ValueOf(err), place, write, func() {
				c.with(v, reflect.ValueOf(errors.New("z")), place, write, nil)
			})
		}
		return
	}
	hold := func(x reflect.Type) {
		n++
		in := reflect.New(x).Elem()
		again := func() {
			v.Set(in)
			write()
		}
		c.with(v, in, place+"("+x.String()+")", write, func() { c.vary(in, place+"("+x.String()+")", again) })
	}
	for _, x := range c.values {
		pointed := x.Kind() == reflect.Pointer && x.Elem().Implements(t) // the value itself will do
		if x.Implements(t) && !pointed && t.NumMethod() > 0 {
			hold(x)
		}
	}
	for _, o := range objects {
		if x := reflect.TypeOf(o); n == 0 && x.Implements(t) {
			hold(x)
			n = 0
		}
	}
	if n == 0 && !reflect.TypeOf(objects[0]).Implements(t) {
		panic(fmt.Sprintf("%s is a %s: say what it can be", place, t))
	}
}

// says reports whether a field is part of what a message says: of an actor the path, of a crash all but its stack, of a
// protobuf all but how it works.
func says(t reflect.Type, f reflect.StructField) bool {
	switch {
	case t.PkgPath() == "github.com/troupe-dev/troupe/actors/kernel" && t.Name() == "cell":
		return f.Name == "path"
	case t == reflect.TypeFor[kernel.CrashReport]():
		return f.Name != "Stack"
	case reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ ProtoMessage() }]()):
		return f.Name != "state" && f.Name != "sizeCache"
	}
	return f.Name != "_"
}
