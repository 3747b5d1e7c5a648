package plan

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A node that protects itself has so much, in bytes: memory, and each of its file systems.
const (
	Memory = 4 << 30
	Disk   = 100 << 30
)

// Size reads a number of bytes as people write it: 3Gi.
func Size(text string) (uint64, error) {
	q, err := resource.ParseQuantity(text)
	if err == nil && (q.Sign() < 0 || q.CmpInt64(math.MaxInt64>>8) > 0) {
		err = errors.New("must be from 0 to 32Pi")
	}
	if err != nil {
		return 0, fmt.Errorf("%q: %w", text, err)
	}
	return uint64(q.Value()), nil
}

// parsePressure reads what is after the word pressure.
func (c *Case) parsePressure(rest string) error {
	switch disks, _ := strings.CutPrefix(rest, "disks="); disks {
	case "1":
		c.Disks = 1
	case "2":
		c.Disks = 2
	default:
		return errors.New("want: pressure disks=1, or pressure disks=2")
	}
	return nil
}

// press makes one case in four one of a node that protects itself. It has random numbers of its own, and what it adds
// comes after all else, so that the other cases are what they were.
func (g *grower) press() {
	r := Rand(g.c.Seed, "pressure")
	if r.IntN(4) != 0 {
		return
	}
	g.c.Disks = 1 + r.IntN(2)
	for _, name := range g.pods {
		if r.IntN(3) != 0 {
			continue
		}
		for i := range g.c.Ops {
			if o := &g.c.Ops[i]; o.Role.Pod == name && forms[o.Verb].shape {
				o.Args = append(o.Args, Arg{"disk", "1Gi"})
			}
		}
	}
	memory, layers := []string{"4000Mi", "2Gi", "3Gi", "0"}, []string{"95Gi", "50Gi", "2Gi", "900Mi", "0"}
	for range 1 + r.IntN(8) {
		g.at += time.Duration(1+r.IntN(30)) * time.Second
		o := Op{Verb: Use, Role: Role{Pod: g.pods[r.IntN(len(g.pods))], Container: "app"}}
		switch r.IntN(6) {
		case 0:
			o = Op{Verb: Unused, Args: []Arg{{"size", []string{"10Gi", "30Gi", "60Gi"}[r.IntN(3)]}}}
		case 1, 2:
			o.Args = []Arg{{"memory", memory[r.IntN(len(memory))]}}
		case 3, 4:
			o.Args = []Arg{{"layer", layers[r.IntN(len(layers))]}}
		default:
			o = Op{Verb: Restart, Args: []Arg{{"for", fmt.Sprintf("%ds", 1+r.IntN(10))}}}
		}
		g.add(o)
	}
}
