// Command up shows troupe at work: it starts a private runtime, runs `troupe node` on the pods of
// docs/examples, and prints how they fare until Ctrl-C; then it takes all of it away again.
//
//	RUNTIME=sim  the simulated runtime: no root, nothing installed. The default without root.
//	RELEASE=1.6  Debian's containerd instead of a 2.x built from its Go module
//	ONCE=1       end with code 0 as soon as every pod was seen as it should be, with 1 after 3 min
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// onceTimeout is how long a run with --once may take: the crashing pod is restarted after 13 s.
const onceTimeout = 3 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "up:", err)
		os.Exit(1)
	}
}

// options are what the user may choose.
type options struct {
	sim     bool
	once    bool
	release lab.Release
}

func parse() (options, error) {
	once := flag.Bool("once", os.Getenv("ONCE") == "1", "exit when every pod has reached its expected state (ONCE=1)")
	runtime := flag.String("runtime", os.Getenv("RUNTIME"), "container runtime: containerd, or sim, which needs no root and installs nothing (RUNTIME)")
	release := flag.String("release", os.Getenv("RELEASE"), "containerd's release: 2 or 1.6 (RELEASE)")
	flag.Parse()
	o := options{once: *once}
	var err error
	if o.release, err = lab.ParseRelease(or(*release, "2")); err != nil {
		return o, err
	}
	switch *runtime {
	case "sim":
		o.sim = true
	case "", "containerd":
		if os.Geteuid() == 0 {
			break
		}
		if *runtime != "" {
			return o, errors.New("RUNTIME=containerd needs root")
		}
		fmt.Println("Containers need root, and you are not root: the pods run on the simulated runtime.")
		o.sim = true
	default:
		return o, fmt.Errorf("RUNTIME=%s: want containerd or sim", *runtime)
	}
	return o, nil
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func run(ctx context.Context) (err error) {
	defer check.Return(&err)
	o := check.Must(parse())
	repository := check.Must(lab.Repository())
	announce(o)

	n := node{repository: repository, dir: filepath.Join(repository, ".run/node"), out: os.Stdout}
	if o.sim {
		n.dir = filepath.Join(repository, ".run/node-sim")
	} else {
		check.OK(install(ctx, o.release))
		l := check.Must(startRuntime(ctx, repository, o.release))
		n.lab = l
	}
	defer func() {
		check.Ended(recover(), &err)
		fmt.Println("\nRemoving everything ...")
		err = errors.Join(err, n.cleanup())
		if err == nil {
			fmt.Println("Only the logs in .run are left.")
		}
	}()
	if err := n.start(ctx); err != nil {
		return interrupted(ctx, err)
	}
	if o.once {
		once, cancel := context.WithTimeout(ctx, onceTimeout)
		defer cancel()
		return n.watch(once, true)
	}
	return interrupted(ctx, n.watch(ctx, false))
}

// interrupted turns an error that Ctrl-C caused into none: that is the usual way to end.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func announce(o options) {
	fmt.Println("This runs the pods of docs/examples with troupe as the node agent:")
	if o.sim {
		fmt.Println("  - on a simulated runtime: no root, no containers, nothing installed")
	} else {
		fmt.Printf("  - on a private containerd %s under .run/; other containerds on this machine are not touched\n", o.release)
		fmt.Println("  - the images are built from programs of this repository and pulled from a registry on 127.0.0.1")
		fmt.Println("  - missing Debian packages (containerd, runc, CNI plugins, iptables) are installed first")
	}
	fmt.Println("All files are written under .run/. Ctrl-C stops the node and removes the pods.")
	fmt.Println()
}

// startRuntime starts containerd on a clean slate: an earlier run may have been killed.
func startRuntime(ctx context.Context, repository string, release lab.Release) (*lab.Lab, error) {
	l, err := lab.New(ctx, lab.Config{
		Dir: filepath.Join(repository, ".run/up"), Release: release, Repository: repository, NodeNetwork: true,
		Log: os.Stdout,
	})
	if err != nil {
		return nil, err
	}
	if err := l.Start(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := l.RemovePods(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("remove the pods of an earlier run: %w", err), l.Close())
	}
	fmt.Printf("containerd %s is ready: %s\n", release, l.Endpoint())
	return l, nil
}
