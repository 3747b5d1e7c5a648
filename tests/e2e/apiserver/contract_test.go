package apiserver

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/contract/apicontract"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestContract runs the suite of the port, through a proxy that can break.
//
//tier:served
func TestContract(t *testing.T) {
	noLeaks(t)
	c := plane(t)
	apicontract.API(t, func(t *testing.T) apicontract.Subject {
		p := proxy(t)
		through := as(t, lab.Identity{User: "test-suite", Groups: []string{"system:masters"}, Server: "https://" + p.Address()})
		return apicontract.Subject{
			API: client(t, through, zerolog.Nop()), Other: admin(t), Namespace: "default",
			Break: func() func() {
				p.Cut()
				return func() { check.Error(t, p.Heal()) }
			},
			// A new apiserver remembers no history, and etcd none that was compacted.
			Expire: func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				check.Fatal(t, c.CompactEtcd(ctx))
				check.Fatal(t, c.RestartAPIServer(ctx))
			},
		}
	})
}
