package kernel

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unsafe"
)

// walker adds the contents of messages to a digest: all that a message says, exported or not, and nothing of how it
// lies in memory. Equal messages have equal digests in every run and every process.
//
//   - A pointer counts as what it points at, and an interface as its type and its value.
//   - Maps count in no order. Functions and channels count as there or not.
//   - An error counts as its type and its text, and those that it wraps; one of this module as its fields.
//   - A time counts as the instant, a reference to an actor as its path.
//
// It reads memory as the types say, by plans that are made once, because a simulation walks millions of messages.
type walker struct {
	digest
	depth int
	open  map[visit]bool // of those deep down, or nil
}

// visit is a value that is being walked.
type visit struct {
	at unsafe.Pointer
	as *plan
}

// deep is where the walker begins to look for cycles: no message has as many pointers in one another.
const deep = 100

// module is where errors are from whose fields count.
const module = "github.com/troupe-dev/troupe/"

// message walks a message.
func (w *walker) message(m any) {
	if m != nil {
		w.value(reflect.ValueOf(m))
	}
}

// value walks what an interface holds.
func (w *walker) value(v reflect.Value) {
	p := planOf(v.Type())
	w.word(p.name)
	if v.Type().Implements(errorType) && w.failure(v) {
		return
	}
	if v.Kind() == reflect.Pointer {
		step := &p.steps[0]
		w.pointer(v.UnsafePointer(), step.of)
		return
	}
	room := reflect.New(v.Type()) // what an interface holds has no address
	room.Elem().Set(v)
	w.walk(room.UnsafePointer(), p)
}

// failure walks an error that is not of this module, and reports whether it is such a one.
func (w *walker) failure(v reflect.Value) bool {
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
		if v.IsNil() {
			return false
		}
	}
	if strings.HasPrefix(t.PkgPath()+"/", module) {
		return false
	}
	err := v.Interface().(error)
	w.text(err.Error())
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		if e := err.Unwrap(); e != nil {
			w.value(reflect.ValueOf(e))
		}
	case interface{ Unwrap() []error }:
		for _, e := range err.Unwrap() {
			w.value(reflect.ValueOf(e))
		}
	}
	return true
}

func (w *walker) walk(at unsafe.Pointer, p *plan) {
	for i := range p.steps {
		s := &p.steps[i]
		w.step(unsafe.Add(at, s.offset), s)
	}
}

func (w *walker) step(at unsafe.Pointer, s *step) {
	switch s.how {
	case read1:
		w.word(uint64(*(*uint8)(at)))
	case read2:
		w.word(uint64(*(*uint16)(at)))
	case read4:
		w.word(uint64(*(*uint32)(at)))
	case read8:
		w.word(*(*uint64)(at))
	case readString:
		w.text(*(*string)(at))
	case readBytes:
		b := *(*[]byte)(at)
		w.there(b != nil)
		w.text(unsafe.String(unsafe.SliceData(b), len(b)))
	case readPointer:
		w.pointer(*(*unsafe.Pointer)(at), s.of)
	case readSlice:
		b := *(*[]struct{})(at) // of whatever type: where it begins, and its length
		w.slice(unsafe.Pointer(unsafe.SliceData(b)), len(b), s.of)
	case readArray:
		w.elements(at, s.count, s.of)
	case readMap:
		w.mapping(reflect.NewAt(s.typ, at).Elem(), s)
	case readInterface:
		v := reflect.NewAt(s.typ, at).Elem()
		w.there(!v.IsNil())
		if !v.IsNil() {
			w.value(v.Elem())
		}
	case readPresence:
		w.there(*(*unsafe.Pointer)(at) != nil)
	case readTime:
		t := (*time.Time)(at)
		w.word(uint64(t.Unix()))
		w.word(uint64(t.Nanosecond()))
	case readActor:
		w.text((*cell)(at).path)
	case readText:
		w.text(reflect.NewAt(s.typ, at).Interface().(fmt.Stringer).String())
	}
}

func (w *walker) there(is bool) {
	if is {
		w.word(1)
	} else {
		w.word(0)
	}
}

func (w *walker) pointer(at unsafe.Pointer, of *plan) {
	w.there(at != nil)
	if at != nil && w.enter(at, of) {
		w.walk(at, of)
		w.leave(at, of)
	}
}

// slice tells a nil slice from an empty one: they are told apart by who reads them.
func (w *walker) slice(at unsafe.Pointer, n int, of *plan) {
	w.there(at != nil)
	w.word(uint64(n))
	if n > 0 && w.enter(at, of) {
		w.elements(at, n, of)
		w.leave(at, of)
	}
}

func (w *walker) elements(at unsafe.Pointer, n int, of *plan) {
	for i := range n {
		w.walk(unsafe.Add(at, uintptr(i)*of.typ.Size()), of)
	}
}

// mapping adds up the digests of the entries, which has the same result in any order.
func (w *walker) mapping(m reflect.Value, s *step) {
	w.there(!m.IsNil())
	w.word(uint64(m.Len()))
	if m.Len() == 0 || !w.enter(m.UnsafePointer(), s.of) {
		return
	}
	key, value := reflect.New(s.key.typ), reflect.New(s.of.typ)
	outer, total := w.digest, uint64(0)
	for i := m.MapRange(); i.Next(); {
		key.Elem().SetIterKey(i)
		value.Elem().SetIterValue(i)
		w.digest = 0
		w.walk(key.UnsafePointer(), s.key)
		w.walk(value.UnsafePointer(), s.of)
		total += w.sum()
	}
	w.digest = outer
	w.word(total)
	w.leave(m.UnsafePointer(), s.of)
}

// enter reports whether a value is not already being walked: then it was met again inside itself.
func (w *walker) enter(at unsafe.Pointer, as *plan) bool {
	if w.depth++; w.depth <= deep {
		return true
	}
	v := visit{at, as}
	if w.open[v] {
		w.depth--
		return false
	}
	if w.open == nil {
		w.open = map[visit]bool{}
	}
	w.open[v] = true
	return true
}

func (w *walker) leave(at unsafe.Pointer, as *plan) {
	if w.depth--; w.depth >= deep {
		delete(w.open, visit{at, as})
	}
}
