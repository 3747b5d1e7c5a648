package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
	"github.com/troupe-dev/troupe/supervisor/internal/again"
)

// limitSelf sets what the kernel grants this process, and how it treats this machine. A refusal is a warning: it makes
// the agent less robust, and not unable to work.
func (d *nodeDaemon) limitSelf(ctx context.Context) error {
	warn := func(setting string, err error) {
		if err != nil {
			d.Log.Warn().Str("setting", setting).Msg(err.Error())
		}
	}
	warn("oomScoreAdj", setOOMScore("/proc/self/oom_score_adj", d.Config.OOMScoreAdj()))
	m := ownMemory{
		log: &d.Log, set: func(limit int64) { debug.SetMemoryLimit(limit) },
		grow: func(percent int) { debug.SetGCPercent(percent) },
	}
	if os.Getenv("GOGC") != "" { // whoever sets it knows better
		m.grow = func(int) {}
	}
	m.look(ownBounds())
	again.Go(ctx, func() {
		wait.UntilWithContext(ctx, func(context.Context) { m.look(ownBounds()) }, memoryPeriod)
	}, func(reason string) { warn("memory limit", errors.New(reason)) })
	warn("maxOpenFiles", setOpenFiles(openFiles{unix.Getrlimit, unix.Setrlimit}, d.Config.MaxOpenFiles()))
	if d.onRealMachine() && !d.Config.Kubelet().ProtectKernelDefaults {
		changed, err := protectKernel(sysctlRoot, false)
		if len(changed) > 0 {
			d.Log.Info().Strs("parameters", changed).Msg("set kernel parameters (protectKernelDefaults: false)")
		}
		warn("protectKernelDefaults", err)
	}
	return nil
}

// memoryPeriod is how often the limits of the agent's memory are read again: somebody may change that of a cgroup, and
// the agent may be moved to another one.
const memoryPeriod = 10 * time.Second

// growthLimited and growthFree are how much the heap of an agent grows before garbage is collected, with a limit of its
// memory and without one. What is held for a greedy pod is megabytes at a time, so the heap soon has that much garbage.
const growthLimited, growthFree = 50, 100

// ownMemory puts the limit of the agent's memory in force.
type ownMemory struct {
	log *zerolog.Logger
	set func(limit int64)
	// grow sets by how many percent the heap may grow between two collections.
	grow func(percent int)
	// of is what it follows from; zero for no limit.
	of resourceuse.Bound
}

// ownBounds are the limits of the cgroup of this process and of those above it; none where they can't be read. What
// slows the agent down counts as one: its pods would wait for it.
func ownBounds() []resourceuse.Bound {
	own, err := cgroup.Own()
	if err != nil {
		return nil
	}
	return resourceuse.New().SoftBounds(own)
}

// look puts in force what the limits are now. Files in memory come and go: of them nothing is said.
func (m *ownMemory) look(bounds []resourceuse.Bound) {
	limit, of := memoryLimit(os.Getenv("GOMEMLIMIT"), bounds, 0)
	changed := of.Limit != m.of.Limit || of.Path != m.of.Path
	m.of = of
	switch {
	case limit > 0:
		m.set(limit)
		if changed {
			m.grow(growthLimited)
			m.log.Info().Str("cgroup", of.Path).Uint64("limitBytes", of.Limit).Int64("agentBytes", limit).
				Msg("the memory of the agent is limited by its cgroup: near that, it collects garbage more often")
		}
	case changed:
		m.set(math.MaxInt64)
		m.grow(growthFree)
		m.log.Info().Msg("the memory of the agent is not limited by its cgroup any more")
	}
}

// memoryLimit is where the agent begins to collect garbage more often (runtime/debug.SetMemoryLimit), 0 for nowhere: at
// three quarters of the smallest limit of its cgroup and those above, without the files in memory, and files more to
// come. The rest is for what Go does not count: child processes, small files, and the program itself. Whoever sets
// GOMEMLIMIT knows better.
func memoryLimit(set string, bounds []resourceuse.Bound, files uint64) (limit int64, of resourceuse.Bound) {
	if set != "" || len(bounds) == 0 {
		return 0, of
	}
	of = slices.MinFunc(bounds, func(a, b resourceuse.Bound) int { return cmp.Compare(a.Limit, b.Limit) })
	left := max(of.Limit-min(of.Limit, of.Shared+files), of.Limit/4) // the agent itself needs some
	return int64(min(left, math.MaxInt64) / 4 * 3), of
}

// filesFit has Go leave room for so many bytes of files of a volume in memory, which count for the cgroup of the agent,
// or says why they don't fit. Beyond its limit the kernel would kill the agent, and the next one would try again.
// old is how many bytes of files they replace.
func filesFit(bytes, old int64) error {
	bounds := ownBounds()
	err := fits(bytes, old, bounds)
	if err != nil {
		debug.FreeOSMemory()
		bounds = ownBounds()
		err = fits(bytes, old, bounds)
	}
	if err != nil {
		return err
	}
	if limit, _ := memoryLimit(os.Getenv("GOMEMLIMIT"), bounds, uint64(max(bytes, 0))); limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	return nil
}

// fits says why files in memory don't fit: they may take half of what is left, and the agent needs the rest to go on.
// What they replace is there until they are.
func fits(bytes, old int64, bounds []resourceuse.Bound) error {
	for _, b := range bounds {
		if most := min(b.Available, (b.Available+uint64(max(old, 0)))/2); uint64(max(bytes, 0)) > most {
			q := func(n uint64) *resource.Quantity {
				return resource.NewQuantity(int64(min(n, math.MaxInt64)), resource.BinarySI)
			}
			return fmt.Errorf("the node agent may have %s of memory (cgroup %s), has %s left, and files may take half of that",
				q(b.Limit), b.Path, q(b.Available))
		}
	}
	return nil
}

// setOOMScore writes oom_score_adj (proc_pid_oom_score_adj(5)), unless it has this value already.
func setOOMScore(file string, want int) error {
	text := strconv.Itoa(want)
	if now, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(now)) == text {
		return nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.WriteString(text)
		if e := f.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		return noOOMScore(want, err)
	}
	return nil
}

func noOOMScore(want int, err error) error {
	return fmt.Errorf("cannot set oom_score_adj of the agent to %d: %w: when memory runs out, the kernel may kill "+
		"the agent early; give the agent CAP_SYS_RESOURCE, or set OOMScoreAdjust=%d in its systemd unit",
		want, err, want)
}

// openFiles reads and writes a limit of this process (getrlimit(2)).
type openFiles struct {
	get, set func(resource int, limit *unix.Rlimit) error
}

// setOpenFiles sets the limit of open files, or, if the kernel refuses that, as much of it as it allows.
func setOpenFiles(f openFiles, want uint64) error {
	err := f.set(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: want, Max: want})
	if err == nil {
		return nil
	}
	now := unix.Rlimit{}
	if e := f.get(unix.RLIMIT_NOFILE, &now); e != nil {
		return fmt.Errorf("cannot read the limit of open files of the agent: %w", e)
	}
	if now.Max >= want {
		return fmt.Errorf("cannot set the limit of open files of the agent to %d: %w", want, err)
	}
	if now.Cur < now.Max {
		now.Cur = now.Max
		if e := f.set(unix.RLIMIT_NOFILE, &now); e != nil {
			return fmt.Errorf("cannot set the limit of open files of the agent to %d: %w", now.Max, e)
		}
	}
	return fmt.Errorf("cannot set the limit of open files of the agent to %d: %w: it is %d; give the agent "+
		"CAP_SYS_RESOURCE, set LimitNOFILE=%d in its systemd unit, or set a smaller maxOpenFiles", want, err, now.Cur, want)
}
