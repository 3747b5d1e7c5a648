package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/chaos/live/tcpproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// The kernel's own NFS server, of version 4, which needs no other program: what rpc.mountd would answer
// the kernel is told beforehand, by the files that it asks it through (linux/fs/nfsd/export.c). Clients
// come to it through a proxy, which can keep silent as a server does whose machine is gone: it hangs up on
// nobody.
const (
	nfsExport  = "/export" // as the client names it: /
	nfsControl = "/proc/fs/nfsd"
	nfsPort    = 12049 // of the server itself
	nfsAddress = "127.0.0.1:2049"
)

// startNFS exports a directory to this machine itself.
func startNFS() (*tcpproxy.Proxy, error) {
	for _, m := range [][2]string{{nfsExport, "tmpfs"}, {nfsControl, "nfsd"}} {
		if err := os.MkdirAll(m[0], 0o755); err != nil && m[1] == "tmpfs" {
			return nil, err
		}
		if err := unix.Mount(m[1], m[0], m[1], 0, ""); err != nil {
			return nil, fmt.Errorf("mount %s: %w", m[0], err)
		}
	}
	socket, err := nfsSocket()
	if err != nil {
		return nil, fmt.Errorf("open the NFS server's port: %w", err)
	}
	defer unix.Close(socket) // the kernel keeps it
	const (
		never = "2147483647"
		// NFSEXP_INSECURE_PORT, NFSEXP_NOSUBTREECHECK, NFSEXP_FSID
		flags = 0x2 | 0x400 | 0x2000
		all   = "all" // a name for whoever comes from this machine
	)
	export := fmt.Sprintf("%s %s %s %d 65534 65534 0", all, nfsExport, never, flags)
	for _, w := range []struct{ file, text string }{
		{filepath.Join(nfsExport, "greeting"), "from the server"},
		{"/proc/net/rpc/auth.unix.ip/channel", "nfsd 127.0.0.1 " + never + " " + all},
		{"/proc/net/rpc/nfsd.export/channel", export},
		{"/proc/net/rpc/nfsd.fh/channel", all + ` 1 \x00000000 ` + never + " " + nfsExport}, // FSID_NUM: 0 is the root
		{nfsControl + "/versions", "-2 -3 +4 +4.1 +4.2"},
		{nfsControl + "/nfsv4leasetime", "10"},
		{nfsControl + "/nfsv4gracetime", "10"},
		{nfsControl + "/portlist", strconv.Itoa(socket)},
		{nfsControl + "/threads", "4"},
	} {
		if err := os.WriteFile(w.file, []byte(w.text+"\n"), 0o644); err != nil {
			return nil, fmt.Errorf("start the NFS server: %w", err)
		}
	}
	return tcpproxy.Listen(nfsAddress, "127.0.0.1:"+strconv.Itoa(nfsPort))
}

// nfsSocket listens where the server is to.
func nfsSocket() (int, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = unix.Bind(socket, &unix.SockaddrInet4{Port: nfsPort, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(socket, unix.SOMAXCONN)
	}
	if err != nil {
		return 0, errors.Join(err, unix.Close(socket))
	}
	return socket, nil
}

// endNFS takes all of it away. The kernel lets go of what was exported a moment later.
func endNFS(ctx context.Context, proxy *tcpproxy.Proxy) error {
	proxy.Close()
	err := os.WriteFile(nfsControl+"/threads", []byte("0\n"), 0o644)
	for _, cache := range []string{"nfsd.fh", "nfsd.export", "auth.unix.ip"} {
		err = errors.Join(err, os.WriteFile("/proc/net/rpc/"+cache+"/flush", []byte("1\n"), 0o644))
	}
	for _, dir := range []string{nfsControl, nfsExport} {
		err = errors.Join(err, await(ctx, dir+" is unmounted", func() error { return unix.Unmount(dir, 0) }))
	}
	return err
}

// nfsPod reads and writes files of the server, and writes once more when file go is there.
func nfsPod(name string) string {
	return node.Manifest(name, 1, `
  containers:
  - name: main
    image: `+lab.WorkImage+`
    args: [cat, /files/greeting, then, append, /files/`+name+`, first, then, await, /here/go, then, append, /files/`+name+`, second, then, sleep]
    volumeMounts: [{name: files, mountPath: /files}, {name: here, mountPath: /here}]
  volumes: [{name: files, nfs: {server: 127.0.0.1, path: /}}, {name: here, emptyDir: {}}]`)
}

// plainPod has nothing to do with it.
func plainPod(name string) string {
	return node.Manifest(name, 1, `
  containers: [{name: main, image: `+lab.WorkImage+`, args: [sleep]}]`)
}

// nfs has pods read and write what a server has, has the server fall silent, and looks at what that costs.
func (h *host) nfs(ctx context.Context) (err error) {
	defer check.Return(&err)
	proxy := check.Must(startNFS())
	defer func() {
		check.Ended(recover(), &err)
		if err != nil { // so that nothing hangs for ever
			err = errors.Join(err, proxy.Heal())
		}
		err = errors.Join(err, endNFS(ctx, proxy))
	}()
	check.OK(h.replaced(ctx))
	before := map[string]node.Pod{}
	for _, name := range []string{"keeps", "leaves"} {
		check.OK(h.agent.Write(name+".yaml", nfsPod(name)))
	}
	for _, name := range []string{"keeps", "leaves"} {
		before[name] = check.Must(h.awaitPod(ctx, name, "runs", node.Pod.Running))
		check.OK(h.onServer(ctx, name, "first\n"))
		log := filepath.Join(h.agent.Logs(), "default_"+before[name].Name+"_"+before[name].UID, "main", "0.log")
		// The runtime writes the line after the pod has read it.
		check.OK(lab.Eventually(ctx, time.Minute, "the pod "+name+" has read the file", func() error {
			text, err := os.ReadFile(log)
			if err == nil && !strings.Contains(string(text), "from the server") {
				err = fmt.Errorf("its log is %q", text)
			}
			return err
		}))
	}

	proxy.Hang()
	// Both write, and their processes hang in the kernel. Two more want to begin.
	for _, name := range []string{"keeps", "leaves"} {
		check.OK(h.letWrite(before[name]))
	}
	for _, name := range []string{"waits", "gives-up"} {
		check.OK(h.agent.Write(name+".yaml", nfsPod(name)))
	}
	for _, name := range []string{"keeps", "leaves"} {
		check.OK(h.awaitHung(ctx, name))
	}
	if err := h.comeAndGo(ctx, "first"); err != nil {
		return fmt.Errorf("while the server is silent: %w", err)
	}
	for _, name := range []string{"waits", "gives-up"} {
		check.Must(h.awaitPod(ctx, name, "says what it waits for", waitsForFiles))
	}
	check.OK(h.agent.Kill(ctx))
	begun := time.Now()
	if err := h.agent.Start(ctx); err != nil {
		return fmt.Errorf("while the server is silent: %w", err)
	}
	fmt.Printf("--- with a silent NFS server another agent was there after %v\n", time.Since(begun))
	for _, name := range []string{"keeps", "leaves"} {
		check.OK(h.runsOn(ctx, before[name]))
	}
	if err := h.comeAndGo(ctx, "second"); err != nil {
		return fmt.Errorf("while the server is silent, after a restart of the agent: %w", err)
	}
	check.Must(h.awaitPod(ctx, "waits", "says to the next agent what it waits for", waitsForFiles))
	for _, name := range []string{"gives-up", "leaves"} {
		begun := time.Now()
		if err := h.goes(ctx, name); err != nil {
			return fmt.Errorf("while the server is silent: %w", err)
		}
		fmt.Printf("--- with a silent NFS server pod %s was gone after %v\n", name, time.Since(begun))
	}

	// Who has waited goes on, and what was written is written.
	check.OK(proxy.Heal())
	begun = time.Now()
	check.OK(h.onServer(ctx, "keeps", "first\nsecond\n"))
	fmt.Printf("--- a write that had hung was on the NFS server after %v\n", time.Since(begun))
	check.OK(h.runsOn(ctx, before["keeps"]))
	if _, err := h.awaitPod(ctx, "waits", "runs", node.Pod.Running); err != nil {
		return fmt.Errorf("when the server was back: %w", err)
	}
	fmt.Printf("--- a pod that had waited for the NFS server ran after %v\n", time.Since(begun))
	check.OK(h.onServer(ctx, "waits", "first\n"))
	return errors.Join(h.goes(ctx, "waits"), h.goes(ctx, "keeps"), h.noNFS(ctx))
}

// onServer waits until the server has what a pod wrote.
func (h *host) onServer(ctx context.Context, pod, want string) error {
	return await(ctx, "the server has what pod "+pod+" wrote", func() error {
		text, err := os.ReadFile(filepath.Join(nfsExport, pod))
		if err == nil && string(text) != want {
			err = fmt.Errorf("it has %q, want %q", text, want)
		}
		return err
	})
}

// letWrite lets a pod write once more.
func (h *host) letWrite(p node.Pod) error {
	return os.WriteFile(filepath.Join(h.agent.Root(), "pods", p.UID, "volumes/kubernetes.io~empty-dir/here/go"), nil, 0o644)
}

// awaitHung waits until a process of a pod sleeps in the kernel and can't be woken.
func (h *host) awaitHung(ctx context.Context, pod string) (err error) {
	defer check.Return(&err)
	world := check.Must(node.Look(ctx, h.lab))
	running := world.Of(pod).Running()
	if len(running) != 1 {
		return fmt.Errorf("pod %s has %d containers that run", pod, len(running))
	}
	pid := check.Must(node.ContainerPID(ctx, h.lab, running[0].Id))
	return await(ctx, "a thread of pod "+pod+" hangs", func() error {
		threads := check.Must(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)))
		var states []string
		for _, file := range threads {
			text := check.Must(os.ReadFile(file))
			_, rest, _ := strings.Cut(string(text), ") ")
			states = append(states, rest[:min(1, len(rest))])
		}
		return check.That(slices.Contains(states, "D"), "its threads are %v", states)
	})
}

// waitsForFiles is nil if a pod says that it waits for the volume of the server, or why it has failed.
func waitsForFiles(p node.Pod) error {
	if w := p.Container("main"); w.State != "waiting" || !strings.Contains(w.Message, `volume "files"`) && !strings.Contains(w.Message, "127.0.0.1:/") {
		return errors.New("it does not say what it waits for")
	}
	return nil
}

// runsOn is nil if a pod has the container that it had.
func (h *host) runsOn(ctx context.Context, before node.Pod) error {
	name := strings.TrimSuffix(before.Name, "-"+node.NodeName)
	after, err := h.awaitPod(ctx, name, "runs on", node.Pod.Running)
	if err == nil && (before.Container("main").ID != after.Container("main").ID || after.Restarts != 0) {
		err = fmt.Errorf("the pod was %+v and is %+v", before, after)
	}
	return err
}

// noNFS waits until nothing of it is mounted.
func (h *host) noNFS(ctx context.Context) error {
	return await(ctx, "nothing of the server is mounted", func() error {
		text, err := os.ReadFile("/proc/self/mounts")
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 2 && strings.HasPrefix(fields[2], "nfs") && fields[2] != "nfsd" {
				err = errors.Join(err, errors.New(line))
			}
		}
		return err
	})
}

// comeAndGo runs a pod that has nothing to do with it, and takes it away.
func (h *host) comeAndGo(ctx context.Context, name string) (err error) {
	defer check.Return(&err)
	check.OK(h.agent.Write(name+".yaml", plainPod(name)))
	check.Must(h.awaitPod(ctx, name, "runs", node.Pod.Running))
	return h.goes(ctx, name)
}

// goes takes a pod away and waits until nobody knows it.
func (h *host) goes(ctx context.Context, name string) error {
	if err := h.agent.Remove(name + ".yaml"); err != nil {
		return err
	}
	return h.gone(ctx, name)
}

// gone waits until the agent does not know a pod.
func (h *host) gone(ctx context.Context, name string) error {
	return await(ctx, "pod "+name+" is gone", func() error {
		view, err := h.agent.Pods(ctx)
		if pod, there := view.Pod(name); there {
			err = fmt.Errorf("the agent lists %+v", pod)
		}
		return err
	})
}
