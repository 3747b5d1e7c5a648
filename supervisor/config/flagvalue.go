package config

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cliflag "k8s.io/component-base/cli/flag"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// headerValue is --manifest-url-header: name:value,name:value; a name may come again. It is not shown: it may hold a
// password.
type headerValue struct {
	*cliflag.ColonSeparatedMultimapStringString
}

func (headerValue) String() string { return "" }

// taintsValue is --register-with-taints: key=value:effect,….
type taintsValue struct{ taints *[]v1.Taint }

func (t *taintsValue) Set(text string) error {
	*t.taints = nil
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		taint, err := ParseTaint(part)
		if err != nil {
			return err
		}
		*t.taints = append(*t.taints, taint)
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
	for _, taint := range *t.taints {
		parts = append(parts, taint.ToString())
	}
	return strings.Join(parts, ",")
}

// reservedMemoryValue is --reserved-memory: node:type=quantity,type=quantity;
// given once for each NUMA node, or several separated by ";".
type reservedMemoryValue struct{ reservations *[]kubelet.MemoryReservation }

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
		if err := cliflag.NewMapStringString(&pairs).Set(limits); err != nil {
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
		*r.reservations = append(*r.reservations, reservation)
	}
	return nil
}

func (r *reservedMemoryValue) Type() string   { return "node:type=quantity,…" }
func (r *reservedMemoryValue) String() string { return "" }
