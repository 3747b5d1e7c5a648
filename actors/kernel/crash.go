package kernel

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// CrashReport describes one panic of an actor.
type CrashReport struct {
	Path        string    `json:"path"`
	Kind        string    `json:"kind"`
	At          time.Time `json:"at"`
	Incarnation uint32    `json:"incarnation"`
	// Reason is the value of the panic.
	Reason string `json:"reason"`
	// Message is the type of the message being handled, Detail its own fields in short.
	Message string `json:"message"`
	Detail  string `json:"detail,omitempty"`
	// Last are the messages handled before it, oldest first.
	Last []string `json:"last,omitempty"`
	// Stack begins at the panic.
	Stack string `json:"stack"`
	// Crashes counts the crashes within the policy's window, including this one.
	Crashes int `json:"crashes"`
	// Decision is what happened to the actor.
	Decision Decision `json:"decision"`
	// RetryAfter is the delay until its next start, unless it was escalated.
	RetryAfter time.Duration `json:"retryAfter"`
}

func (r *CrashReport) String() string {
	return fmt.Sprintf("%s panicked on %s: %s", r.Path, r.Message, r.Reason)
}

// Error makes the report an error for actors that fail because of it.
func (r *CrashReport) Error() string { return r.String() }

// failure is what a failing actor tells its parent. It names the cell, because the path may belong
// to another actor when the parent receives it.
type failure struct {
	cell   *cell
	report *CrashReport
}

// crash records a panic. m is the message being handled.
func (c *cell) crash(reason, m any, stack []byte) *CrashReport {
	r := &CrashReport{
		Path: c.path, Kind: c.kind, At: c.sys.clock.Now(), Reason: fmt.Sprint(reason),
		Stack: trimStack(string(stack)),
	}
	switch m := m.(type) {
	case result:
		r.Detail = describe(m.payload())
	case *effectPanic:
		r.Reason, r.Detail, r.Stack = m.reason, m.detail, m.stack
	case actor.SystemMessage, overflowed:
		// c.current names it
	default:
		r.Detail = describe(m)
	}
	c.mu.Lock()
	r.Incarnation = c.incarnation
	r.Message = c.current
	if h := c.history; h != nil {
		n := len(h.ring)
		for i := range n {
			m := h.ring[(h.next+i)%n]
			r.Last = append(r.Last, time.Unix(0, m.at).In(r.At.Location()).Format("15:04:05.000")+" "+m.name)
		}
	}
	if c.faults == nil {
		c.faults = &faults{}
	}
	c.faults.total++
	c.faults.last = r
	c.current = ""
	c.mu.Unlock()
	return r
}

const (
	detailLimit = 400
	stackLimit  = 16 << 10
)

// describe is a message in one line. It leaves out everything deeper than the message's own fields:
// that may be large, or a Secret.
func describe(m any) string {
	v := reflect.ValueOf(m)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return shorten(plain(v), detailLimit)
	}
	var b strings.Builder
	for i := range v.NumField() {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(v.Type().Field(i).Name + ":" + plain(v.Field(i)))
		if b.Len() > detailLimit {
			break
		}
	}
	return shorten(b.String(), detailLimit)
}

func plain(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Invalid:
		return "nil"
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return shorten(fmt.Sprint(v), detailLimit/4)
	case reflect.Interface:
		if v.CanInterface() && !v.IsNil() {
			if err, ok := v.Interface().(error); ok {
				return shorten(err.Error(), detailLimit/4)
			}
		}
		return plain(v.Elem())
	case reflect.Slice, reflect.Map:
		return fmt.Sprintf("%s(%d)", v.Type(), v.Len())
	default:
		return v.Type().String()
	}
}

func shorten(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// trimStack keeps the frames of the actor. It drops those of the recovery and of the runtime's
// panic at the top, and those below the actor.
func trimStack(s string) string {
	if i := strings.Index(s, "\npanic("); i >= 0 {
		s = skipFrame(s[i+1:])
		for strings.HasPrefix(s, "runtime.") {
			s = skipFrame(s)
		}
	}
	for _, below := range []string{
		"github.com/asynkron/protoactor-go", "github.com/troupe-dev/troupe/actors/kernel.(*adapter[",
	} {
		if i := strings.Index(s, below); i > 0 {
			s = s[:i]
		}
	}
	return shorten(strings.TrimSpace(s), stackLimit)
}

// skipFrame drops a line and the next one, which names its file.
func skipFrame(s string) string {
	for range 2 {
		_, s, _ = strings.Cut(s, "\n")
	}
	return s
}
