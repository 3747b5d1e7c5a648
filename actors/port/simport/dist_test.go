package simport

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestDist(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range []string{"2s", "1s..3s", "1s~3s"} {
		d, err := ParseDist(s)
		if err != nil || d.String() != s {
			t.Errorf("%s: %v, %v", s, d, err)
		}
		for range 1000 {
			v := d.Sample(rng)
			if v < 0 || v > 12*time.Second || d.kind == distUniform && (v < time.Second || v > 3*time.Second) {
				t.Fatalf("%s gave %v", s, v)
			}
		}
	}
	above := 0
	l := Lognormal(time.Second, 3*time.Second)
	for range 100000 {
		if l.Sample(rng) > 3*time.Second {
			above++
		}
	}
	if above < 800 || above > 1200 {
		t.Errorf("%d of 100000 are above the 99th percentile", above)
	}
}
