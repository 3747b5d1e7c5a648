package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// mapValue is a flag whose value is key=value,key=value; given more than once
// it adds up. The separator is "=", or "<" for eviction thresholds.
type mapValue struct {
	into      *map[string]string
	separator string
	// bare allows a key alone, which has an empty value then, as labels do.
	bare bool
	set  bool
}

func (m *mapValue) Set(text string) error {
	if !m.set {
		*m.into, m.set = map[string]string{}, true
	}
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, m.separator)
		if !ok && !m.bare {
			return fmt.Errorf("%q: want key%svalue", pair, m.separator)
		}
		(*m.into)[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return nil
}

func (m *mapValue) Type() string { return "key" + m.separator + "value,…" }

func (m *mapValue) String() string {
	if m.into == nil {
		return ""
	}
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(*m.into)) {
		pairs = append(pairs, k+m.separator+(*m.into)[k])
	}
	return strings.Join(pairs, ",")
}

// gatesValue is --feature-gates: name=true,name=false.
type gatesValue map[string]bool

func (g gatesValue) Set(text string) error {
	pairs := map[string]string{}
	if err := (&mapValue{into: &pairs, separator: "="}).Set(text); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		on, err := strconv.ParseBool(pairs[name])
		if err != nil {
			return fmt.Errorf("%s=%s: want true or false", name, pairs[name])
		}
		g[name] = on
	}
	return nil
}

func (g gatesValue) Type() string { return "name=bool,…" }

func (g gatesValue) String() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(g)) {
		pairs = append(pairs, name+"="+strconv.FormatBool(g[name]))
	}
	return strings.Join(pairs, ",")
}

// headerValue is --manifest-url-header: name:value,name:value; a name may come
// again. It is not shown: it may hold a password.
type headerValue struct{ header map[string][]string }

func (h *headerValue) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, ":")
		if !ok {
			return fmt.Errorf("want name:value, separated by commas")
		}
		if h.header == nil {
			h.header = map[string][]string{}
		}
		name = strings.TrimSpace(name)
		h.header[name] = append(h.header[name], strings.TrimSpace(value))
	}
	return nil
}

func (h *headerValue) Type() string   { return "name:value,…" }
func (h *headerValue) String() string { return "" }

// taintsValue is --register-with-taints: key=value:effect,….
type taintsValue struct{ taints []v1.Taint }

func (t *taintsValue) Set(text string) error {
	t.taints = nil
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		taint, err := ParseTaint(part)
		if err != nil {
			return err
		}
		t.taints = append(t.taints, taint)
	}
	return nil
}

// ParseTaint reads key=value:effect, or key:effect.
func ParseTaint(text string) (v1.Taint, error) {
	label, effect, ok := strings.Cut(text, ":")
	if !ok {
		return v1.Taint{}, fmt.Errorf("%q: want key=value:effect, or key:effect", text)
	}
	key, value, _ := strings.Cut(label, "=")
	return v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)}, nil
}

func (t *taintsValue) Type() string { return "key=value:effect,…" }

func (t *taintsValue) String() string {
	var parts []string
	for _, taint := range t.taints {
		parts = append(parts, taint.ToString())
	}
	return strings.Join(parts, ",")
}

// reservedMemoryValue is --reserved-memory: node:type=quantity,type=quantity;
// given once for each NUMA node, or several separated by ";".
type reservedMemoryValue struct{ reservations []kubelet.MemoryReservation }

func (r *reservedMemoryValue) Set(text string) error {
	for part := range strings.SplitSeq(text, ";") {
		if part == "" {
			continue
		}
		node, limits, ok := strings.Cut(part, ":")
		number, err := strconv.ParseInt(strings.TrimSpace(node), 10, 32)
		if !ok || err != nil {
			return fmt.Errorf("%q: want node:type=quantity, like 0:memory=1Gi", part)
		}
		pairs := map[string]string{}
		if err := (&mapValue{into: &pairs, separator: "="}).Set(limits); err != nil {
			return err
		}
		reservation := kubelet.MemoryReservation{NumaNode: int32(number), Limits: v1.ResourceList{}}
		for name, amount := range pairs {
			quantity, err := resource.ParseQuantity(amount)
			if err != nil {
				return fmt.Errorf("%s=%s: must be a quantity, like 1Gi", name, amount)
			}
			reservation.Limits[v1.ResourceName(name)] = quantity
		}
		r.reservations = append(r.reservations, reservation)
	}
	return nil
}

func (r *reservedMemoryValue) Type() string   { return "node:type=quantity,…" }
func (r *reservedMemoryValue) String() string { return "" }
