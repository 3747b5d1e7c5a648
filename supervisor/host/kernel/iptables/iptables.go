// Package iptables keeps the chains of iptables that others expect a node agent to make (makeIPTablesUtilChains). The
// agent itself needs none of them.
//
//	mangle  KUBE-IPTABLES-HINT   shows images with both kinds of iptables, legacy and nft, which one the host uses
//	filter  KUBE-FIREWALL        drops packets for 127.0.0.0/8 that come from elsewhere (CVE-2020-8558); IPv4 only
//	all     KUBE-KUBELET-CANARY  is gone when somebody has flushed a table, so that the others are made again
//
// The programs may be missing, fail or hang: nothing waits for them.
package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/rescue"
)

const (
	hint     = "KUBE-IPTABLES-HINT"
	firewall = "KUBE-FIREWALL"
	canary   = "KUBE-KUBELET-CANARY"
	// Period is the time between looks.
	Period = time.Minute
	// callLimit is how long a program may take, lockLimit how many seconds it waits for other programs.
	callLimit = 30 * time.Second
	lockLimit = "5"
)

// martians are packets for the loopback addresses that did not begin there. kube-proxy makes the same rule, word by
// word, so that there is one.
var martians = []string{
	"-m", "comment", "--comment", "block incoming localnet connections", "--dst", "127.0.0.0/8",
	"!", "--src", "127.0.0.0/8", "-m", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT", "-j", "DROP",
}

// Config is what chains are kept with.
type Config struct {
	// V4 and V6 are the commands of both families, a program with its first arguments. If both are nil they are the usual
	// ones.
	V4, V6 []string
	Log    zerolog.Logger
}

// Keeper keeps the chains while it runs.
type Keeper struct{ families []*family }

// New makes no chain yet.
func New(c Config) *Keeper {
	if c.V4 == nil && c.V6 == nil {
		c.V4, c.V6 = []string{"iptables"}, []string{"ip6tables"}
	}
	k := &Keeper{}
	for _, f := range []*family{{command: c.V4, firewall: true, log: c.Log}, {command: c.V6, log: c.Log}} {
		if len(f.command) > 0 {
			k.families = append(k.families, f)
		}
	}
	return k
}

// Run makes the chains, and again after a flush, until ctx ends. It does not wait for a program that hangs then.
func (k *Keeper) Run(ctx context.Context) {
	ended := make(chan struct{}, len(k.families))
	for _, f := range k.families {
		over := func(string) { ended <- struct{}{} }
		rescue.Go(ctx, func() { f.keep(ctx, f.look); over("") }, over)
	}
	for range k.families {
		<-ended
	}
}

// family is IPv4 or IPv6, each with its own program.
type family struct {
	command  []string
	firewall bool
	log      zerolog.Logger
	// settled says that the last full look changed nothing: then the canary is enough. A flush may go on while the
	// chains are made again.
	settled bool
	// said is what the log has last said.
	said string
}

func (f *family) keep(ctx context.Context, look func(context.Context) error) {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		looked := make(chan error, 1)
		rescue.Go(ctx, func() { looked <- look(ctx) }, func(reason string) { looked <- errors.New(reason) })
		select {
		case <-ctx.Done():
			return
		case err := <-looked:
			f.tell(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tell logs what is new. That there is no iptables is no error: a host may have nftables only.
func (f *family) tell(err error) {
	text := "made"
	if err != nil {
		text = err.Error()
	}
	if text == f.said {
		return
	}
	f.said = text
	if err != nil {
		f.log.Info().Str("program", f.command[0]).Str("error", text).
			Msg("cannot keep the chain KUBE-IPTABLES-HINT for other programs of this host (makeIPTablesUtilChains)")
		return
	}
	f.log.Debug().Str("program", f.command[0]).Msg("keeping the chains of makeIPTablesUtilChains")
}

// look makes what is missing.
func (f *family) look(ctx context.Context) error {
	if f.settled {
		if err := f.run(ctx, "-S", canary, "-t", "mangle"); err == nil || exitCode(err) == busy {
			return nil
		}
	}
	f.settled = false
	changed, err := f.ensure(ctx)
	f.settled = err == nil && !changed
	return err
}

// ensure makes what is missing, and reports whether anything was.
func (f *family) ensure(ctx context.Context) (changed bool, err error) {
	steps := []func() (bool, error){func() (bool, error) { return f.chain(ctx, "mangle", hint) }}
	if f.firewall {
		steps = append(steps,
			func() (bool, error) { return f.chain(ctx, "filter", firewall) },
			func() (bool, error) { return f.rule(ctx, "-I", "OUTPUT", "-j", firewall) },
			func() (bool, error) { return f.rule(ctx, "-I", "INPUT", "-j", firewall) },
			func() (bool, error) { return f.rule(ctx, "-A", firewall, martians...) })
	}
	for _, table := range []string{"mangle", "nat", "filter"} {
		steps = append(steps, func() (bool, error) { return f.chain(ctx, table, canary) })
	}
	for _, step := range steps {
		made, err := step()
		if err != nil {
			return changed, err
		}
		changed = changed || made
	}
	return changed, nil
}

func (f *family) chain(ctx context.Context, table, name string) (made bool, err error) {
	if err = f.run(ctx, "-N", name, "-t", table); err == nil {
		return true, nil
	}
	if f.run(ctx, "-S", name, "-t", table) == nil {
		return false, nil
	}
	return false, err
}

// rule puts a rule of the filter table at its place (-I, -A), unless the chain has it.
func (f *family) rule(ctx context.Context, place, chain string, rule ...string) (made bool, err error) {
	rest := append([]string{chain, "-t", "filter"}, rule...)
	switch err := f.run(ctx, append([]string{"-C"}, rest...)...); {
	case err == nil:
		return false, nil
	case exitCode(err) != noSuchRule: // another program has the lock, for example: it may be there
		return false, err
	}
	return true, f.run(ctx, append([]string{place}, rest...)...)
}

// The exit codes of iptables (iptables/xshared.h and iptables-nft): there is no such rule; and the lock or another
// resource is not to be had, which says nothing of the rules.
const (
	noSuchRule = 1
	busy       = 4
)

func exitCode(err error) int {
	if e, is := errors.AsType[*exec.ExitError](err); is {
		return e.ExitCode()
	}
	return -1
}

func (f *family) run(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	full := append(append(f.command[1:len(f.command):len(f.command)], "-w", lockLimit), args...)
	c := exec.CommandContext(ctx, f.command[0], full...)
	c.WaitDelay = time.Second
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", f.command[0], strings.Join(args[:2], " "), err, bytes.TrimSpace(out))
	}
	return nil
}
