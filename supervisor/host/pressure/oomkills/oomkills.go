// Package oomkills implements port.OOMKills on this machine: it reads the kernel's log, and its counters.
package oomkills

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/oom"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
)

// Config is what is read.
type Config struct {
	// Log is the kernel's log, /dev/kmsg if empty.
	Log   string
	Meter *resourceuse.Meter
	// Cgroups are the settings of pods' cgroups; nil if pods have none of their own.
	Cgroups *podcgroup.Settings
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	switch {
	case c.Meter == nil:
		return errors.New("oomkills: nothing reads this machine's counters")
	case c.Log != "" && !filepath.IsAbs(c.Log):
		return fmt.Errorf("oomkills: kernel log %q: must be an absolute path", c.Log)
	}
	return nil
}

// Kills implements port.OOMKills. A log is read from where it ended when this was made.
type Kills struct {
	config Config
	// log is nil, and why says why, if the kernel's log can't be read.
	log *os.File
	why error

	// turn is held by the call that reads the log. What follows belongs to it.
	turn   chan struct{}
	parser oom.Parser
	// found are kills that no call has returned. Invariant: at most mostFound.
	found  []oom.Kill
	record [recordSize]byte

	closing sync.Once
}

var _ port.OOMKills = (*Kills)(nil)

const (
	// recordSize is more than any record of the kernel (PRINTK_MESSAGE_MAX is 2 KiB, with its dictionary 8 KiB).
	recordSize = 16 << 10
	mostFound  = 1024
	// together is how long one waits for more kills.
	together = 20 * time.Millisecond
)

// kernelLog is where the kernel gives its log, a record for each read (Documentation/ABI/testing/dev-kmsg).
const kernelLog = "/dev/kmsg"

// New opens the kernel's log. It succeeds if the log can't be read: calls then say so.
func New(c Config) (*Kills, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Log == "" {
		c.Log = kernelLog
	}
	k := &Kills{config: c, turn: make(chan struct{}, 1)}
	// Without O_NONBLOCK, a read could not be given up.
	k.log, k.why = os.OpenFile(c.Log, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if k.why == nil {
		_, seek := k.log.Seek(0, io.SeekEnd)
		k.why = errors.Join(seek, k.log.SetReadDeadline(time.Time{}))
	}
	if k.why != nil {
		k.Close() //nolint:errcheck // it could not be read either
	}
	return k, nil
}

// Close ends all calls.
func (k *Kills) Close() (err error) {
	k.closing.Do(func() {
		if k.log != nil {
			err = k.log.Close()
		}
	})
	return err
}

// Watch implements port.OOMKills. Calls take turns.
func (k *Kills) Watch(ctx context.Context, done func([]oom.Kill, error)) {
	hostcall.Get(ctx, "WatchOOM", k.config.Log, k.watch, done)
}

func (k *Kills) watch(ctx context.Context) ([]oom.Kill, error) {
	if k.why != nil {
		return nil, hostcall.Failf(port.Unsupported, "%v", k.why)
	}
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-k.turn }()
	if err := k.log.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	var stopped sync.WaitGroup
	stopped.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer stopped.Done()
		k.log.SetReadDeadline(time.Now()) //nolint:errcheck // then it is closed, and the read has ended too
	})
	defer func() { // the next call sets another deadline
		if !stop() {
			stopped.Wait()
		}
	}()
	for len(k.found) == 0 {
		if err := k.read(); err != nil {
			return nil, err
		}
	}
	// The kernel may kill several at once.
	if err := k.log.SetReadDeadline(time.Now().Add(together)); err != nil {
		return nil, err
	}
	var err error
	for len(k.found) < mostFound && err == nil {
		err = k.read()
	}
	if ctx.Err() != nil { // nobody takes them: they are the next call's
		return nil, ctx.Err()
	}
	found := k.found
	k.found = nil
	return found, nil
}

// read waits for one record.
func (k *Kills) read() error {
	n, err := k.log.Read(k.record[:])
	switch {
	case errors.Is(err, unix.EPIPE): // records were overwritten before they were read
		return nil
	case err != nil:
		return err
	}
	if kill, is := k.parser.Record(string(k.record[:n])); is {
		k.found = append(k.found, kill)
	}
	return nil
}

// Count implements port.OOMKills.
func (k *Kills) Count(ctx context.Context, pods []*v1.Pod, done func(oom.Counts, error)) {
	hostcall.Get(ctx, "CountOOM", "", func(context.Context) (n oom.Counts, err error) {
		var counts bool
		if n.All, counts = k.config.Meter.OOMKills(); !counts {
			return n, hostcall.Failf(port.Unsupported, "/proc/vmstat has no oom_kill")
		}
		n.Containers = map[string]uint64{}
		if k.config.Cgroups == nil {
			return n, nil
		}
		for _, p := range pods {
			u, _ := usage.Of(p)
			if name, err := k.config.Cgroups.Pod(p); err == nil {
				u.ID = name.Path(k.config.Cgroups.Driver)
			}
			k.config.Meter.Pod(&u, usage.All)
			for i := range u.Containers {
				if m := u.Containers[i].Cgroup.Memory; m != nil {
					n.Containers[u.Containers[i].RuntimeID] = m.OOMs
				}
			}
		}
		return n, nil
	}, done)
}
