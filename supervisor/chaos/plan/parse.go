package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads a case: lines, or parts between semicolons. A # at the beginning of a line
// begins a comment. Errors say which line is wrong, and all of them are told.
func Parse(text string) (*Case, error) {
	c := &Case{Seed: 1}
	var errs []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		for part := range strings.SplitSeq(line, ";") {
			part = strings.TrimSpace(part)
			if part == "" || strings.HasPrefix(part, "#") {
				continue
			}
			if err := c.line(part); err != nil {
				errs = append(errs, fmt.Errorf("line %d: %q: %w", n, part, err))
			}
		}
	}
	if len(errs) == 0 {
		errs = append(errs, c.Validate())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Case) line(s string) (err error) {
	word, rest, _ := strings.Cut(s, " ")
	switch word {
	case "seed":
		c.Seed, err = strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
	case "standalone":
		c.Standalone = true
	case "no-events":
		c.NoEvents = true
	case "pressure":
		err = c.parsePressure(strings.TrimSpace(rest))
	case "devices":
		if c.Devices, err = strconv.Atoi(strings.TrimSpace(rest)); err == nil && c.Devices == 0 {
			err = errors.New("want 1 device at least")
		}
	case "csi":
		if c.CSI = strings.TrimSpace(rest); c.CSI != Plain && c.CSI != Attached {
			err = errors.New("want csi plain or csi attach")
		}
	case "nodes":
		if c.Nodes, err = strconv.Atoi(strings.TrimSpace(rest)); err == nil && c.Nodes == 0 {
			err = errors.New("want 1 node at least")
		}
	case "schedule":
		err = c.Schedule.parse(rest)
	case "cost":
		err = c.Schedule.parseCost(strings.TrimSpace(rest))
	case "fault":
		var f Fault
		if f, err = parseFault(rest); err == nil {
			c.Faults = append(c.Faults, f)
		}
	default:
		var o Op
		if o, err = parseOp(s); err == nil {
			c.Ops = append(c.Ops, o)
		}
	}
	return err
}

func parseRole(s string) (Role, error) {
	if s == "-" {
		return Role{}, nil
	}
	pod, container, both := strings.Cut(s, "/")
	if pod == "" || both && container == "" || strings.ContainsAny(container, "/") {
		return Role{}, fmt.Errorf("%q is not a role: give POD or POD/CONTAINER", s)
	}
	return Role{Pod: pod, Container: container}, nil
}

func parseOp(s string) (o Op, err error) {
	if strings.HasPrefix(s, "on ") || strings.HasPrefix(s, "at ") {
		when, rest, found := strings.Cut(s, ": ")
		if !found {
			return o, errors.New(`missing ": " after the time: write "at 5s: VERB …" or "on ROLE STATE: VERB …"`)
		}
		if o.When, err = parseWhen(when); err != nil {
			return o, err
		}
		s = rest
	}
	words := strings.Fields(s)
	o.Verb = Verb(words[0])
	f, known := forms[o.Verb]
	if !known {
		return o, unknownVerb(o.Verb)
	}
	words = words[1:]
	if f.role > 0 {
		if len(words) == 0 {
			return o, fmt.Errorf("%s needs a role: give POD or POD/CONTAINER", o.Verb)
		}
		if o.Role, err = parseRole(words[0]); err != nil {
			return o, err
		}
		words = words[1:]
	}
	if f.node && len(words) > 0 && !strings.Contains(words[0], "=") {
		o.Node, words = words[0], words[1:]
	}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		o.Args = append(o.Args, Arg{key, value})
	}
	return o, nil
}

func parseWhen(s string) (w When, err error) {
	words := strings.Fields(s)
	if words[0] == "at" {
		if len(words) != 2 {
			return w, errors.New("want: at DURATION: …")
		}
		w.At, err = time.ParseDuration(words[1])
		return w, err
	}
	if len(words) < 3 || len(words) > 4 {
		return w, errors.New("want: on ROLE STATE [+DURATION]: …")
	}
	if w.Of, err = parseRole(words[1]); err != nil {
		return w, err
	}
	w.On = State(words[2])
	if len(words) == 4 {
		after, plus := strings.CutPrefix(words[3], "+")
		if !plus {
			return w, fmt.Errorf("%q: want +DURATION", words[3])
		}
		w.After, err = time.ParseDuration(after)
	}
	return w, err
}

func parseFault(s string) (f Fault, err error) {
	what, effect, found := strings.Cut(s, " = ")
	words := strings.Fields(what)
	if !found || len(words) != 4 || !strings.HasPrefix(words[3], "#") {
		return f, errors.New("want: fault STREAM SUBJECT ROLE #N = EFFECT [DURATION]")
	}
	f.Stream, f.Subject = Stream(words[0]), words[1]
	if f.Role, err = parseRole(words[2]); err != nil {
		return f, err
	}
	if f.N, err = strconv.Atoi(words[3][1:]); err != nil {
		return f, err
	}
	parts := strings.Fields(effect)
	if len(parts) == 0 || len(parts) > 2 {
		return f, errors.New("want: = EFFECT [DURATION]")
	}
	f.Effect.Do = EffectKind(parts[0])
	if len(parts) == 2 {
		f.Effect.For, err = time.ParseDuration(parts[1])
	}
	return f, err
}
