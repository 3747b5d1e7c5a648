// Command packaging makes a release of troupe: static programs, Debian and RPM packages, images, man pages, lists of
// what is inside, and checksums. The version and its date are those of the first heading of CHANGELOG.md, so that a
// tarball without git gives the same bytes as a checkout.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	root := flag.String("source", ".", "the source tree")
	out := flag.String("out", "", "where the release goes: a new or empty directory (default: dist in the source tree)")
	only := flag.String("only", "", "make only these, separated by commas: "+strings.Join(named(parts), ", "))
	machines := flag.String("for", "", "make it only for these: "+strings.Join(named(targets), ", "))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *root, *out, *only, *machines); err != nil {
		stop()
		log.Fatal(err)
	}
}

// part is one kind of file of a release.
type part struct {
	name string
	make func(context.Context, release) error
}

func (p part) String() string { return p.name }

// parts are all of them, in the order in which each can use what was made before.
var parts = []part{
	{"programs", programs},
	{"manual", manual},
	{"sbom", sboms},
	{"packages", packages},
	{"images", images},
	{"checksums", checksums},
}

func named[T fmt.Stringer](all []T) (out []string) {
	for _, one := range all {
		out = append(out, one.String())
	}
	return out
}

func run(ctx context.Context, root, out, only, machines string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(root, "dist")
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	r, err := newRelease(root, out)
	if err != nil {
		return err
	}
	chosen, err := choose(parts, only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if r.targets, err = choose(targets, machines); err != nil {
		return fmt.Errorf("-for: %w", err)
	}
	if there, err := os.ReadDir(out); err == nil && len(there) > 0 && only == "" {
		return fmt.Errorf("%s is not empty: remove it, or name another directory with -out", out)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, p := range chosen {
		log.Println(p.name)
		if err := p.make(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	log.Printf("%s %s is in %s", program, r.version, out)
	return nil
}

// choose gives those of all that are named, in the order of all; without names, all.
func choose[T fmt.Stringer](all []T, wanted string) (out []T, err error) {
	if wanted == "" {
		return all, nil
	}
	names := strings.Split(wanted, ",")
	for _, one := range all {
		if i := slices.Index(names, one.String()); i >= 0 {
			out, names = append(out, one), slices.Delete(names, i, i+1)
		}
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("there is no %s: want some of %s", strings.Join(names, ", "), strings.Join(named(all), ", "))
	}
	return out, nil
}
