package differ

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	imagev1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

var (
	count     = flag.Int("pods", 0, "how many pods are run; 0: those of test-all")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first of them; those after it have the next ones")
	only      = flag.String("case", "", "run this pod alone, such as 17 or 17:sidecar,own-users")
	shrinks   = flag.Int("shrink", 4, "how many kinds of differences are shrunk")
	dump      = flag.String("dump", "", "a directory for what was seen")
	kept      = flag.String("kept", "", "the directory of an earlier -dump, to be compared again by the rules as they are now: needs no node")
	period    = flag.Duration("for", 6*time.Hour, "after how long no more pods are begun")
)

// portion is how many pods are run if nothing is asked for, of seeds from portionSeed on.
const portion, portionSeed = 24, 1000

var shared = lab.Shared{Name: "differ", Plane: lab.ControlPlaneConfig{ControllerManager: true, Scheduler: true, Log: os.Stderr}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// TestDiffer runs pods of seeds on both agents (docs/parity/differ.md): a few that always are the same, unless more are asked for.
//
//tier:all the kubelet beside
func TestDiffer(t *testing.T) {
	if *kept != "" {
		judge(t, check.Value(load(*kept))(t), nil)
		return
	}
	if *count == 0 && *only == "" {
		*count, *firstSeed = portion, portionSeed
	}
	needNodes(t)
	cases := []Case{}
	for i := range uint64(*count) {
		cases = append(cases, Draw(*firstSeed+i))
	}
	if *only != "" {
		cases = []Case{check.Value(ParseCase(*only))(t)}
	}
	r := newRig(t)
	verdicts := make([]verdict, len(cases))
	begin := time.Now()
	check.Error(t, each(cases, func(i int, c Case) (err error) {
		if time.Since(begin) >= *period {
			return nil
		}
		verdicts[i], err = r.examine(t.Context(), c)
		return errors.Join(err, save(verdicts[i]))
	}))
	t.Logf("they took %v", time.Since(begin).Round(time.Second))
	judge(t, verdicts, r)
	r.leftovers(t)
}

// judge fails the test for what differs. Without nodes it shows no smaller pods.
func judge(t *testing.T, verdicts []verdict, r *rig) {
	t.Helper()
	suspect := map[string][]Case{} // by the class that says most
	told := map[string]string{}    // of the first of them
	ran := 0
	var races []string
	for _, v := range verdicts {
		if len(v.runs) == 0 {
			continue
		}
		first := v.runs[0]
		if first.Refused != nil {
			t.Errorf("%s: the apiserver does not take it: %v", first.Case, first.Refused)
			continue
		}
		ran++
		if differ := v.differ(); len(differ) > 0 {
			class := classes(differ)[0]
			if suspect[class] = append(suspect[class], first.Case); len(suspect[class]) == 1 {
				told[class] = words(differ)
			}
		} else if once := first.unknown(); len(once) > 0 {
			races = append(races, fmt.Sprintf("%d: %s", first.Seed, classes(once)[0]))
		}
	}
	t.Logf("%d pods, %d with differences that did not come again:\n%s", ran, len(races), strings.Join(races, "\n"))
	for n, class := range slices.Sorted(maps.Keys(suspect)) {
		cases := suspect[class]
		small := cases[0]
		if r != nil && n < *shrinks {
			small = check.Value(shrink(small, r.shows(t.Context(), class)))(t)
		}
		t.Errorf("%s: %d pods, %v\n%s\nthe smallest pod, %s:\n%s", class, len(cases), short(cases), told[class], small, text(t, small))
	}
}

func words(of []Difference) string {
	var out []string
	for _, d := range of {
		out = append(out, d.String())
	}
	return strings.Join(out, "\n")
}

func short(cases []Case) (seeds []uint64) {
	for _, c := range cases {
		seeds = append(seeds, c.Seed)
	}
	return seeds
}

func text(t *testing.T, c Case) string {
	t.Helper()
	return string(check.Value(yaml.Marshal(c.Make().Pod))(t))
}

// shows says which cases have a difference of a class.
func (r *rig) shows(ctx context.Context, class string) func([]Case) ([]bool, error) {
	return func(cases []Case) ([]bool, error) {
		seen, err := r.run(ctx, cases)
		out := make([]bool, len(cases))
		for i, o := range seen {
			out[i] = o.Refused == nil && len(o.Keys) == 2 && slices.Contains(classes(compare(o.Keys[0], o.Keys[1])), class)
		}
		return out, err
	}
}

// leftovers fails the test for what is left of pods.
func (r *rig) leftovers(t *testing.T) {
	t.Helper()
	for _, s := range r.sides {
		check.Error(t, lab.Eventually(t.Context(), patience, "nothing is left on "+s.Node(), func() error {
			world := check.Must(node.Look(t.Context(), s.lab))
			left := node.Leftovers(s.Daemon, s.lab)
			if err := world.Empty(); err != nil {
				left = append(left, err.Error())
			}
			if len(left) == 0 {
				return nil
			}
			return errors.New(strings.Join(left, "\n"))
		}))
	}
}

// needNodes skips the test where newRig can start none.
func needNodes(t *testing.T) {
	t.Helper()
	lab.Need(t, append(lab.Containerd2.Needs(), lab.RuncBuild)...)
}

// newRig starts both nodes.
func newRig(t *testing.T) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lab.BuildTime)
	defer cancel()
	repository := check.Value(lab.Repository())(t)
	registry := check.Value(shared.Registry())(t)
	work := check.Value(lab.BuildProgram(ctx, repository, "work"))(t)
	for name, user := range map[string]string{userImage: "1000:1000", namedImage: "user"} {
		image := check.Value(lab.NewImage(imagev1.Config{
			Entrypoint: []string{"/work"}, User: user, WorkingDir: "/home", Env: []string{"PATH=/", "OF_IMAGE=yes", "WEB_PORT=of the image"},
		}, lab.File{Path: "work", Mode: 0o755, Data: work}))(t)
		check.Fatal(t, registry.Push(ctx, name, image))
	}
	runc := check.Value(lab.BuildRunc(ctx, repository, os.Stderr))(t)
	r := &rig{}
	kubelet := check.Value(member.Kubelet(ctx, repository, os.Stderr))(t)
	for _, agent := range []member.Agent{kubelet, member.Troupe(check.Value(shared.Troupe())(t))} {
		s, err := newSide(ctx, &shared, agent, runc)
		if s != nil && s.Member != nil {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the end of the log of %s:\n%s", s.Node(), s.LogTail(3000))
				}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				check.Error(t, s.close(ctx))
			})
		}
		check.Fatal(t, err)
		r.sides = append(r.sides, s)
	}
	return r
}

// save writes what was seen to the directory of -dump, of each run of a case.
func save(v verdict) (err error) {
	if *dump == "" {
		return nil
	}
	defer check.Return(&err)
	check.OK(os.MkdirAll(*dump, 0o755))
	for i, o := range v.runs {
		if o.Refused != nil {
			continue
		}
		file := filepath.Join(*dump, fmt.Sprintf("%d-%d", o.Seed, i+1))
		check.OK(os.WriteFile(file+".json", check.Must(json.MarshalIndent(o.Keys, "", " ")), 0o644))
		check.OK(os.WriteFile(file+".yaml", check.Must(yaml.Marshal(o.Make().Pod)), 0o644))
		check.OK(os.WriteFile(file+".diff", []byte(o.String()+"\n"+words(o.unknown())+"\n"), 0o644))
	}
	return nil
}

// load reads what save has written.
func load(dir string) (all []verdict, err error) {
	defer check.Return(&err)
	of := map[uint64]*verdict{}
	for _, file := range check.Must(filepath.Glob(filepath.Join(dir, "*.json"))) { // the first run of a case before its second
		head, _, _ := strings.Cut(string(check.Must(os.ReadFile(strings.TrimSuffix(file, "json")+"diff"))), "\n")
		o := Observed{Case: check.Must(ParseCase(head))}
		check.OK(json.Unmarshal(check.Must(os.ReadFile(file)), &o.Keys))
		if of[o.Seed] == nil {
			of[o.Seed] = &verdict{}
		}
		of[o.Seed].runs = append(of[o.Seed].runs, o)
	}
	for _, seed := range slices.Sorted(maps.Keys(of)) {
		all = append(all, *of[seed])
	}
	return all, nil
}
