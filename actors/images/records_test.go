package images_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// disk plays the files of records, which answers soon. It outlives an agent.
type disk struct {
	r *rig
	// files: intents begin with "i/", records with "r/", those set aside with "e/" and "d/".
	files map[string]string
	err   error
	// slow is how long a read of all takes longer than soon, loads how many there were.
	slow  time.Duration
	loads int
	// counted is what metrics are told.
	counted []string
}

func (d *disk) soon(f func()) { d.r.Soon(f) }

func (d *disk) Load(_ context.Context, done func(port.PullFiles, error)) {
	d.loads++
	d.r.AfterFunc(d.slow+time.Millisecond, func() {
		var all port.PullFiles
		for _, name := range slices.Sorted(maps.Keys(d.files)) {
			f := port.PullFile{Name: name[2:], Data: []byte(d.files[name])}
			switch name[0] {
			case 'i':
				f.Intent = true
				all.Intents = append(all.Intents, f)
			case 'r':
				all.Records = append(all.Records, f)
			case 'e':
				all.AsideIntents = append(all.AsideIntents, f.Name)
			default:
				all.Aside = append(all.Aside, f.Name)
			}
		}
		done(all, d.err)
	})
}

func (d *disk) SaveIntent(_ context.Context, name string, data []byte, done func(error)) {
	d.soon(func() {
		if d.err == nil {
			d.files["i/"+name] = string(data)
		}
		done(d.err)
	})
}

func (d *disk) SavePulled(_ context.Context, name string, data []byte, intent string, done func(error)) {
	d.soon(func() {
		if name != "" && d.err == nil {
			d.files["r/"+name] = string(data)
		}
		if d.err == nil {
			delete(d.files, "i/"+intent)
			delete(d.files, "e/"+intent)
		}
		done(d.err)
	})
}

func (d *disk) RemovePulled(_ context.Context, name string, done func(error)) {
	d.soon(func() { delete(d.files, "r/"+name); delete(d.files, "d/"+name); done(nil) })
}

func (d *disk) SetAside(_ context.Context, f port.PullFile, done func(string, error)) {
	from, to := "r/", "d/"
	if f.Intent {
		from, to = "i/", "e/"
	}
	d.soon(func() { delete(d.files, from+f.Name); d.files[to+f.Name] = string(f.Data); done("aside", nil) })
}

// ImageRemoved implements images.Counts.
func (d *disk) ImageRemoved(imagecache.Reason) {}

func (d *disk) Verified(result string) { d.counted = append(d.counted, result) }

func (d *disk) Recorded(intents, records int) {
	d.counted = append(d.counted, fmt.Sprintf("%d intents, %d records", intents, records))
}

// recording is a rig with records on a disk; the next agent gets the same disk.
func recording(t *testing.T, d *disk, policy kubelet.ImagePullCredentialsVerificationPolicy, change ...func(*rig, *images.Deps)) *rig {
	t.Helper()
	r := makeRig(t, func(r *rig, deps *images.Deps) {
		d.r = r
		if d.files == nil {
			d.files = map[string]string{}
		}
		deps.Records = &images.Records{Files: d, Policy: imagepull.VerificationPolicy{Verification: policy, Allowlist: []string{"reg.io/free"}}}
		deps.Counts = d
		for _, c := range change {
			c(r, deps)
		}
	})
	return r
}

// run lets the runtime answer all that it is asked, until nothing is asked any more. It refuses pulls but those of a user.
func (r *rig) run(user string) {
	for range 20 {
		r.Advance(2 * time.Millisecond)
		lines := r.Lines()
		r.Forget()
		var calls []string
		for _, line := range lines {
			if text, of := strings.CutPrefix(line, "runtime: "); of && !strings.HasSuffix(text, ": given up") {
				calls = append(calls, text)
				line = "did: " + text
			}
			r.Say("%s", line)
		}
		for _, text := range calls {
			var err error
			if strings.HasPrefix(text, "pull ") && user != "*" && !strings.HasSuffix(text, " as "+user) {
				err = refused(port.Other, "unauthorized")
			}
			r.runtime.Answer(err, text)
		}
	}
}

func (r *rig) said(text string) bool {
	return slices.ContainsFunc(r.Lines(), func(l string) bool { return strings.Contains(l, text) })
}

// TestSecondTenant: who may use an image that another pod has pulled with its secret, before and after a restart of the
// agent, in all policies.
func TestSecondTenant(t *testing.T) {
	for _, c := range []struct {
		policy    kubelet.ImagePullCredentialsVerificationPolicy
		preloaded bool
		without   bool // a pod without credentials may use the image
	}{
		{kubelet.NeverVerify, false, true}, {kubelet.NeverVerify, true, true},
		{kubelet.NeverVerifyPreloadedImages, false, false}, {kubelet.NeverVerifyPreloadedImages, true, true},
		{kubelet.NeverVerifyAllowlistedImages, false, false}, {kubelet.NeverVerifyAllowlistedImages, true, false},
		{kubelet.AlwaysVerify, false, false}, {kubelet.AlwaysVerify, true, false},
	} {
		t.Run(fmt.Sprintf("%s, preloaded %v", c.policy, c.preloaded), func(t *testing.T) {
			d := &disk{}
			r := recording(t, d, c.policy)
			r.has[img] = c.preloaded
			if !c.preloaded {
				r.actor.Tell(r.asks("first", v1.PullIfNotPresent, secret("mine", podobjects.Found)))
				r.run("mine")
				if !r.said("first: " + ready) {
					t.Fatal(r.Lines())
				}
				if len(d.files) != 1 || d.files["r/"+imagepull.RecordFileName("sha256:"+img)] == "" {
					t.Fatalf("on the disk is %v", d.files)
				}
			}
			for agent := range 2 {
				if agent > 0 {
					r = recording(t, d, c.policy)
					r.has[img] = true
				}
				r.actor.Tell(r.asks("none", v1.PullIfNotPresent))
				r.actor.Tell(r.asks("never", v1.PullNever))
				if !c.preloaded {
					r.actor.Tell(r.asks("same", v1.PullIfNotPresent, secret("mine", podobjects.Found)))
				}
				r.run("mine")
				if got := r.said("none: " + ready); got != c.without {
					t.Errorf("agent %d: a pod without credentials has it: %v\n%s", agent, got, strings.Join(r.Lines(), "\n"))
				}
				if !c.without && !r.said("none: app waits: ErrImagePull: unauthorized") {
					t.Errorf("agent %d: it is not told why: %v", agent, r.Lines())
				}
				if got := r.said("never: " + ready); got != c.without {
					t.Errorf("agent %d: one that never pulls has it: %v", agent, got)
				}
				if !c.without && !r.said("never: app waits: ErrImageNeverPull: "+never) {
					t.Errorf("agent %d: it is not told why: %v", agent, r.Lines())
				}
				if !c.preloaded && !r.said("same: "+ready) {
					t.Errorf("agent %d: one with the same secret has it not: %v", agent, r.Lines())
				}
				if !c.preloaded && agent > 0 && r.said("did: "+pull+" as mine") {
					t.Errorf("agent %d: it was pulled again for one with the same secret", agent)
				}
			}
		})
	}
}

// TestAllowlist: an image of the list is everybody's.
func TestAllowlist(t *testing.T) {
	d := &disk{}
	r := recording(t, d, kubelet.NeverVerifyAllowlistedImages)
	of := r.asks("a", v1.PullNever)
	of.Ask.Image = "reg.io/free:3"
	r.has[of.Ask.Image] = true
	r.actor.Tell(of)
	r.run("*")
	if !r.said("a: app ready") || !slices.Contains(d.counted, "credentialPolicyAllowed") {
		t.Error(r.Lines(), d.counted)
	}
}

// TestAnonymousPull: an image that needs no credential is everybody's, and Always still pulls.
func TestAnonymousPull(t *testing.T) {
	d := &disk{}
	r := recording(t, d, kubelet.AlwaysVerify)
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.run("*")
	r.Forget()
	r.actor.Tell(r.asks("b", v1.PullIfNotPresent))
	r.actor.Tell(r.asks("c", v1.PullNever))
	r.run("nobody")
	if !r.said("b: "+ready) || !r.said("c: "+ready) || r.said("did: pull") {
		t.Error(r.Lines())
	}
}

// TestOwnCredential: a second tenant with its own secret gets the image after a pull with it, and is on record.
func TestOwnCredential(t *testing.T) {
	d := &disk{}
	r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent, secret("mine", podobjects.Found)))
	r.run("mine")
	r.Forget()
	r.actor.Tell(r.asks("b", v1.PullIfNotPresent, secret("other", podobjects.Found)))
	r.run("other")
	if !r.said("did: "+pull+" as other") || !r.said("b: "+ready) {
		t.Error(r.Lines())
	}
	r.Forget()
	r.actor.Tell(r.asks("c", v1.PullNever, secret("other", podobjects.Found)))
	r.actor.Tell(r.asks("d", v1.PullNever, secret("mine", podobjects.Found)))
	r.run("nobody")
	if !r.said("c: "+ready) || !r.said("d: "+ready) {
		t.Error(r.Lines())
	}
}

// TestServiceAccounts: an image that was pulled as a service account is that account's.
func TestServiceAccounts(t *testing.T) {
	d, as := &disk{}, "robot"
	r := recording(t, d, kubelet.NeverVerifyPreloadedImages, func(_ *rig, deps *images.Deps) {
		deps.Lookup = func(_ string, _ *v1.Pod, _ func() bool, reply func(credentials.Found)) {
			o := of("sa-" + as)
			o.Source = imagepull.Source{Owner: imagepull.OfServiceAccount, UID: as, Namespace: "default", Name: as}
			reply(credentials.Found{Offers: []imagepull.Offer{o}})
		}
	})
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.run("sa-robot")
	r.Forget()
	r.actor.Tell(r.asks("b", v1.PullNever))
	r.run("nobody")
	if !r.said("b: " + ready) {
		t.Error("the same account", r.Lines())
	}
	r.Forget()
	as = "other"
	r.actor.Tell(r.asks("c", v1.PullNever))
	r.run("nobody")
	if r.said("c: " + ready) {
		t.Error("another account", r.Lines())
	}
}

// TestKilledWhilePulling: an image whose pull an agent did not see the end of counts as pulled, under all its names.
func TestKilledWhilePulling(t *testing.T) {
	d := &disk{}
	r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent, secret("mine", podobjects.Found)))
	r.Advance(time.Millisecond)
	r.runtime.Answer(nil, look)
	r.Advance(5 * time.Millisecond)
	if !r.said("runtime: "+pull+" as mine") || len(d.files) != 1 || d.files["i/"+imagepull.RecordFileName(img)] == "" {
		t.Fatalf("the intent is written first: %v, %v", d.files, r.Lines())
	}
	r = recording(t, d, kubelet.NeverVerifyPreloadedImages)
	r.has[img] = true // it was
	r.actor.Tell(r.asks("b", v1.PullNever))
	r.run("mine")
	if r.said("b: "+ready) || !r.said("b: app waits: ErrImageNeverPull") {
		t.Error(r.Lines())
	}
	if len(d.files) != 1 || d.files["r/"+imagepull.RecordFileName("sha256:"+img)] == "" {
		t.Errorf("on the disk is %v", d.files)
	}
}

// TestRuntimeDownAtStart: no image is given before it is known whether an earlier agent pulled it, under any of its names.
// Others are.
func TestRuntimeDownAtStart(t *testing.T) {
	const x, other = "reg.io/x:1", "reg.io/other:1"
	d := &disk{files: map[string]string{"i/" + imagepull.RecordFileName(x): string(imagepull.EncodeIntent(x))}}
	r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
	r.has[img], r.has[x], r.has[other] = true, true, true
	r.alias = map[string]string{other: x}
	r.actor.Tell(r.asks("a", v1.PullNever))
	b := r.asks("b", v1.PullNever)
	b.Ask.Image = other
	r.actor.Tell(b)
	r.Advance(2 * time.Millisecond)
	r.runtime.Answer(nil, look, "look "+other)
	r.runtime.Answer(refused(port.Unavailable, "down"), "look "+x)
	r.Advance(time.Second)
	if !r.said("a: "+ready) || r.said("b: app ready") {
		t.Error("while one look fails", r.Lines())
	}
	r.Forget()
	r.Advance(5 * time.Second)
	r.run("nobody") // the first look at its other name is too old
	if r.said("b: app ready") || !r.said("b: app waits: ErrImageNeverPull") {
		t.Error("it was pulled, nobody knows with what", r.Lines())
	}
}

// TestPullFailsLeavesNothing: an intent ends with its pull.
func TestPullFailsLeavesNothing(t *testing.T) {
	d := &disk{}
	r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.run("nobody")
	if len(d.files) > 0 || !r.said("a: app waits: ErrImagePull") {
		t.Errorf("%v %v", d.files, r.Lines())
	}
}

// TestDiskFails: nothing is pulled that could not be told from what was there before; and what is there is pulled again.
func TestDiskFails(t *testing.T) {
	d := &disk{err: errors.New("no space left on device")}
	r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.run("*")
	if r.said("did: pull") || !r.said(`failed to record image pull intent for container image "`+img+`": no space left`) {
		t.Error(r.Lines())
	}
	there := r.asks("b", v1.PullNever)
	there.Ask.Image = "reg.io/there:1"
	r.has[there.Ask.Image] = true
	r.actor.Tell(there)
	r.run("*")
	if r.said("b: app ready") || !slices.Contains(d.counted, "error") || r.Logged("cannot read the records of image pulls") != 1 {
		t.Error(r.Lines(), r.Log.String())
	}
	d.err = nil
	r.Advance(2 * time.Minute)
	r.run("*")
	if !r.said("b: app ready") || !r.said("a: "+ready) {
		t.Error(r.Lines())
	}
}

// TestDamagedRecords: a damaged record is set aside, and its image is not everybody's for that, also after a restart.
func TestDamagedRecords(t *testing.T) {
	name := imagepull.RecordFileName("sha256:" + img)
	const other = "reg.io/other:1"
	intent := imagepull.RecordFileName(other)
	d := &disk{files: map[string]string{"r/" + name: "{", "i/" + intent: "garbage"}}
	for agent := range 2 {
		r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
		r.has[img], r.has[other] = true, true
		of := r.asks("of", v1.PullNever)
		of.Ask.Image = other
		r.actor.Tell(r.asks("a", v1.PullNever))
		r.actor.Tell(of)
		r.run("mine")
		if r.said("a: "+ready) || r.said("of: app ready") {
			t.Errorf("agent %d: given: %v", agent, r.Lines())
		}
		if n := r.Logged("record of an image pull is damaged"); (agent == 0) != (n == 2) {
			t.Errorf("agent %d: logged %d times", agent, n)
		}
		if d.files["d/"+name] == "" || d.files["e/"+intent] == "" {
			t.Errorf("agent %d: %v", agent, d.files)
		}
		if agent == 0 {
			continue
		}
		r.actor.Tell(r.asks("b", v1.PullIfNotPresent, secret("mine", podobjects.Found)))
		r.run("mine")
		of = r.asks("c", v1.PullIfNotPresent, secret("mine", podobjects.Found))
		of.Ask.Image = other
		r.actor.Tell(of)
		r.run("mine")
		if !r.said("b: "+ready) || !r.said("c: app ready") {
			t.Error("pulled again", r.Lines())
		}
		if d.files["e/"+intent] != "" {
			t.Errorf("it was pulled, and its damaged intent is left: %v", d.files)
		}
	}
}

// TestLatePull: an image that arrives after its pull was given up counts as pulled, with credentials that nobody knows.
func TestLatePull(t *testing.T) {
	d := &disk{}
	r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
	r.actor.Tell(r.asks("a", v1.PullAlways, secret("mine", podobjects.Found)))
	r.Advance(5 * time.Millisecond)
	r.runtime.Answer(nil, look) // what there is before
	r.Advance(5 * time.Millisecond)
	r.Advance(pullDeadline)
	r.runtime.Answer(nil, pull+" as mine") // after its deadline
	r.Advance(5 * time.Millisecond)
	if d.files["r/"+imagepull.RecordFileName("sha256:"+img)] == "" {
		t.Errorf("on the disk is %v", d.files)
	}
}

// TestRecordsGoWithImages: the record of an image that is removed goes, and that of one that is in use stays.
func TestRecordsGoWithImages(t *testing.T) {
	file := func(of string) string { return "r/" + imagepull.RecordFileName(of) }
	d := &disk{files: map[string]string{}}
	for _, id := range []string{"sha256:reg.io/used:1", "sha256:reg.io/old:1", "sha256:reg.io/gone:1"} {
		r, _ := imagepull.AddPull(nil, id, strings.TrimPrefix(id, "sha256:"), nil, time.Unix(0, 0))
		d.files[file(id)] = string(imagepull.EncodeRecord(r))
	}
	lost := imagepull.RecordFileName("sha256:reg.io/lost:1")
	d.files["d/"+lost] = "damaged"
	n := newNodeWith(t, usual, func(deps *images.Deps) {
		deps.Records = &images.Records{Files: d, Policy: imagepull.VerificationPolicy{Verification: kubelet.AlwaysVerify}}
	}, named("reg.io/used:1"), named("reg.io/old:1"))
	d.r = n.rig
	of := observed.Pod{Containers: []observed.Container{{ImageRef: "sha256:reg.io/used:1"}}}
	n.pods.Pods = []observed.RuntimePod{{Pod: of}}
	n.other = 90
	n.Advance(period + time.Second)
	n.runtime.Answer(nil, "remove sha256:reg.io/old:1")
	n.Advance(period)
	if len(d.files) != 1 || d.files[file("sha256:reg.io/used:1")] == "" {
		t.Errorf("on the disk is %v", slices.Collect(maps.Keys(d.files)))
	}
}

const preloaded, mirrored = "reg.io/preloaded:1", "reg.io/mirrored:1"

// both is a rig whose runtime has an image under one name, or also under another one, under which it is pulled.
func both(t *testing.T, d *disk, policy kubelet.ImagePullCredentialsVerificationPolicy, pulled bool) *rig {
	t.Helper()
	r := recording(t, d, policy)
	r.has[preloaded], r.has[mirrored] = true, pulled
	r.alias = map[string]string{preloaded: mirrored}
	return r
}

// uses says whether a pod that does not pull gets an image. Each has another name.
func (r *rig) uses(pod, image string) bool {
	of := r.asks(pod, v1.PullNever)
	of.Ask.Image = image
	r.actor.Tell(of)
	r.run("nobody")
	return r.said(pod + ": app ready")
}

// pulls has a pod pull an image as mine.
func (r *rig) pulls(pod, image string) {
	of := r.asks(pod, v1.PullAlways, secret("mine", podobjects.Found))
	of.Ask.Image = image
	r.actor.Tell(of)
	r.run("mine")
}

// TestPulledUnderAnotherName: an image that was there before stays everybody's when it is pulled under another name, for
// the next agent, too, until it is pulled under the first. Under the other one it is for those who can pull it.
func TestPulledUnderAnotherName(t *testing.T) {
	d := &disk{}
	r := both(t, d, kubelet.NeverVerifyPreloadedImages, false)
	if !r.uses("a", preloaded) {
		t.Fatal("it is everybody's", r.Lines())
	}
	r.pulls("b", mirrored)
	if !r.said("b: app ready") || len(d.files) != 1 {
		t.Fatal(r.Lines(), d.files)
	}
	for agent, policy := range []kubelet.ImagePullCredentialsVerificationPolicy{
		kubelet.NeverVerifyPreloadedImages, kubelet.NeverVerifyPreloadedImages, kubelet.AlwaysVerify, kubelet.NeverVerifyPreloadedImages,
	} {
		if agent > 0 {
			r = both(t, d, policy, true)
		}
		check.Equal(t, r.uses("c", preloaded), policy != kubelet.AlwaysVerify, "agent %d: as before", agent)
		check.Equal(t, r.uses("d", mirrored), false, "agent %d: under the other name", agent)
	}
	r.pulls("e", preloaded)
	check.Equal(t, r.uses("f", preloaded), false, "it was pulled with a secret")
	r = both(t, d, kubelet.NeverVerifyPreloadedImages, true)
	check.Equal(t, r.uses("g", preloaded), false, "the next agent knows")
}

// TestListedBeforeItIsPulled: a list of images shows, too, what was there before.
func TestListedBeforeItIsPulled(t *testing.T) {
	for _, listed := range []bool{true, false} {
		d := &disk{files: map[string]string{}}
		n := newNodeWith(t, usual, func(deps *images.Deps) {
			deps.Records = &images.Records{Files: d, Policy: imagepull.VerificationPolicy{Verification: kubelet.NeverVerifyPreloadedImages}}
		}, observed.Image{ID: "sha256:" + mirrored, RepoTags: []string{preloaded}})
		d.r = n.rig
		n.has[preloaded], n.alias = true, map[string]string{preloaded: mirrored}
		if listed {
			n.Advance(period + time.Second)
		}
		n.pulls("a", mirrored)
		check.Equal(t, n.uses("b", preloaded), listed, "listed %v: %v", listed, n.Lines())
	}
}

// TestUnclearNames: what nobody knows to have been there before is not everybody's because of another pull.
func TestUnclearNames(t *testing.T) {
	const policy = kubelet.NeverVerifyPreloadedImages
	old, _ := imagepull.AddPull(nil, "sha256:"+mirrored, mirrored, []imagepull.Offer{{}}, time.Unix(0, 0))
	r := both(t, &disk{files: map[string]string{"r/" + imagepull.RecordFileName(old.ImageRef): string(imagepull.EncodeRecord(old))}}, policy, true)
	check.Equal(t, r.uses("a", preloaded), false, "a kubelet has pulled it")

	// While an image is pulled, its names may be any: a runtime completes short ones in its own way.
	r = both(t, &disk{}, policy, false)
	of := r.asks("b", v1.PullAlways, secret("mine", podobjects.Found))
	of.Ask.Image = mirrored
	r.actor.Tell(of)
	r.Advance(2 * time.Millisecond)
	r.runtime.Answer(nil, "look "+mirrored)
	r.Advance(2 * time.Millisecond)
	never := r.asks("c", v1.PullNever)
	never.Ask.Image = preloaded
	r.actor.Tell(never)
	r.Advance(2 * time.Millisecond)
	r.runtime.Answer(nil, "look "+preloaded)
	r.Forget()
	r.runtime.Answer(nil, "pull "+mirrored+" as mine")
	r.run("mine")
	check.Equal(t, r.uses("d", preloaded), false, "seen while it was pulled")

	// It was being pulled under this name when an agent was killed, and then under the other one.
	d := &disk{files: map[string]string{"i/" + imagepull.RecordFileName(preloaded): string(imagepull.EncodeIntent(preloaded))}}
	r = both(t, d, policy, false)
	check.Equal(t, r.uses("e", preloaded), false, "nobody knows with what")
	r.pulls("f", mirrored)
	check.Equal(t, r.uses("g", preloaded), false, "nobody knows, as before")
}
