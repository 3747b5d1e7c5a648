package pressure

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// stall is the memory pressure (PSI) that the kernel tells of: some process waited for memory for 0.2 s of
// 2 s. Only with windows of whole multiples of 2 s is CAP_SYS_RESOURCE not needed
// (Documentation/accounting/psi.rst).
const stall = "some 200000 2000000\x00"

// WatchMemory implements port.Pressure. It is told at once if memory, or what all pods have under their limit,
// is under the threshold already.
//
// On cgroup v1 the kernel counts how much memory is used, and tells when that has grown by what was left
// above the threshold. It counts page cache too, so it may tell early, and does not tell if page cache
// gives way to programs. Memory pressure (PSI) tells of that, and is all there is on
// cgroup v2: late, when programs already wait for memory.
func (p *Pressure) WatchMemory(ctx context.Context, threshold uint64, done func(error)) {
	hostcall.Do(ctx, "WatchMemory", "", func(ctx context.Context) error { return p.watch(ctx, threshold) }, done)
}

func (p *Pressure) watch(ctx context.Context, threshold uint64) (err error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	var opened []*os.File
	defer func() {
		err = errors.Join(err, unix.Close(event))
		for _, f := range opened {
			f.Close() //nolint:errcheck // nothing was written that must be kept
		}
	}()
	armed := 0
	var failed []error
	if !p.config.Meter.V2() {
		n, err := p.thresholds(event, threshold)
		armed += n
		failed = append(failed, err)
	}
	fds := []unix.PollFd{{Fd: int32(event), Events: unix.POLLIN}}
	psi, err := os.OpenFile(p.psi, os.O_RDWR, 0)
	if err == nil {
		opened = append(opened, psi)
		if _, err = psi.WriteString(stall); err == nil {
			fds = append(fds, unix.PollFd{Fd: int32(psi.Fd()), Events: unix.POLLPRI})
			armed++
		}
	}
	failed = append(failed, err)
	if armed == 0 {
		return hostcall.Failf(port.Unsupported, "this kernel can't tell when memory runs short: %v", errors.Join(failed...))
	}
	if p.short(threshold) { // the kernel tells only of what happens from now on
		return nil
	}
	return wait(ctx, event, fds)
}

// short says whether the machine, or all pods under their limit, have less than threshold left.
func (p *Pressure) short(threshold uint64) bool {
	if l := p.memory(); l.Known && l.Available < threshold {
		return true
	}
	if p.config.Cgroups == nil {
		return false
	}
	b, limited := p.config.Meter.Bound(p.top())
	return limited && b.Available < threshold
}

// wait returns when one of fds is ready, or with its error when ctx ends. A write to event wakes it.
func wait(ctx context.Context, event int, fds []unix.PollFd) error {
	var woken sync.WaitGroup
	woken.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer woken.Done()
		unix.Write(event, binary.NativeEndian.AppendUint64(nil, 1)) //nolint:errcheck // it has room for this one
	})
	defer func() { // event must not be closed, and its number given to another file, before it was written
		if !stop() {
			woken.Wait()
		}
	}()
	for {
		if _, err := unix.Poll(fds, -1); err == nil {
			return ctx.Err()
		} else if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll: %w", err)
		}
	}
}

// thresholds asks the kernel to write to event when the machine, or a cgroup that limits pods, has less than
// threshold left (Documentation/admin-guide/cgroup-v1/memory.rst). It says how many cgroups it does that for.
func (p *Pressure) thresholds(event int, threshold uint64) (armed int, err error) {
	type at struct {
		path string
		used uint64
	}
	var all []at
	m := p.config.Meter
	if left, _, ok := m.MemoryLeft(); ok {
		if c := m.Cgroup("/", usage.Basic); c.Memory != nil {
			all = append(all, at{"/", c.Memory.Usage + left - min(left, threshold)})
		}
	}
	bounds := m.Bounds(p.above())
	if p.config.Cgroups != nil {
		if b, ok := m.Bound(p.top()); ok {
			bounds = append(bounds, b)
		}
	}
	for _, b := range bounds {
		all = append(all, at{b.Path, b.Usage + b.Available - min(b.Available, threshold)})
	}
	var errs []error
	for _, a := range all {
		if err := arm(m.Dir(a.path), event, a.used); err != nil {
			errs = append(errs, err)
			continue
		}
		armed++
	}
	return armed, errors.Join(errs...)
}

// arm sets one threshold. It is gone when event is closed.
func arm(dir string, event int, used uint64) error {
	usage, err := os.Open(filepath.Join(dir, "memory.usage_in_bytes"))
	if err != nil {
		return err
	}
	defer usage.Close() //nolint:errcheck // it is only named
	return os.WriteFile(filepath.Join(dir, "cgroup.event_control"),
		fmt.Appendf(nil, "%d %d %d", event, usage.Fd(), used), 0)
}
