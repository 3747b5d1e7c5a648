package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

// logged is a log in a file, and what stands in it.
func logged(t *testing.T) (zerolog.Logger, func() string) {
	t.Helper()
	at := filepath.Join(t.TempDir(), "log")
	file := must.Value(os.Create(at))(t)
	t.Cleanup(func() { must.Error(t, file.Close()) })
	return zerolog.New(file), func() string { return string(must.Value(os.ReadFile(at))(t)) }
}

// TestHungServer: a server that does not end, because a stream hangs, does not keep the agent from ending, nor makes it
// end with an error.
func TestHungServer(t *testing.T) {
	hung := make(chan struct{})
	defer close(hung)
	o := simulated(t)
	log, said := logged(t)
	o.Log = log
	ctx, cancel := context.WithCancel(t.Context())
	d := newDaemon(o)
	defer d.end()
	up, err := d.up(ctx)
	must.Fatal(t, err)
	must.Equal(t, up, true, "it is up")
	d.servers = append(d.servers, func(context.Context) error { <-hung; return nil })
	ended := make(chan error, 1)
	go func() { ended <- d.serve(ctx) }()
	cancel()
	must.Error(t, must.Receive(t, ended))
	must.Has(t, said(), `"servers":1,`, "the log")
}

// TestHungClose: nor does what its start has opened. What it closes after that is closed with the process.
func TestHungClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung, last := make(chan struct{}), false
		d := newDaemon(Options{Log: zerolog.Nop()})
		d.closers = []func(){func() { last = true }, func() { <-hung }}
		begun := time.Now()
		d.end()
		must.Equal(t, time.Since(begun), closePatience, "it waited")
		close(hung)
		synctest.Wait()
		must.Equal(t, last, true, "the rest is closed")
		d.closers = []func(){func() { panic("no such thing") }}
		d.end()
		must.Equal(t, time.Since(begun), closePatience, "it waited for what panicked")
	})
}

// TestWarnedFirst: what the configuration is warned of may be why the agent can't start.
func TestWarnedFirst(t *testing.T) {
	o := simulated(t, "--runtime=cri", "--container-runtime-endpoint=/not/there.sock", "--node-ip=x")
	log, said := logged(t)
	o.Log = log
	must.Says(t, Run(t.Context(), o), "no container runtime answers at", "the start")
	must.Has(t, said(), "--node-ip: x: is no IP address", "the log")
	must.Has(t, said(), `"version":"troupe `, "the log")
}
