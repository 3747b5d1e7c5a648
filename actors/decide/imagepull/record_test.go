package imagepull

import (
	"fmt"
	"strings"
	"testing"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/tests/check"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const img = "reg.io/app:1"

func secretOf(uid, name, password string) Offer {
	return Offer{
		Credential: Credential{Username: "u", Password: password},
		Source:     Source{Owner: OfSecret, UID: uid, Namespace: "shop", Name: name},
	}
}

func accountOf(name string) Offer {
	return Offer{Source: Source{Owner: OfServiceAccount, UID: "u-" + name, Namespace: "shop", Name: name}}
}

var node = Offer{Credential: Credential{Username: "node"}}

// TestFormat: files are those of a kubelet, byte by byte.
func TestFormat(t *testing.T) {
	r, _ := AddPull(nil, "sha256:1", img, []Offer{secretOf("x", "pull", "p")}, now)
	want := `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2026-01-02T03:04:05Z","imageRef":"sha256:1",` +
		`"credentialMapping":{"reg.io/app":{"kubernetesSecrets":[{"uid":"x","namespace":"shop","name":"pull","credentialHash":"` +
		secretOf("x", "pull", "p").Hash() + `"}]}}}` + "\n"
	check.Equal(t, string(EncodeRecord(r)), want, "got")
	if got := string(EncodeIntent(img)); got != `{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"reg.io/app:1"}`+"\n" {
		t.Errorf("got %s", got)
	}
	// a file of the kubelet's own tests
	if got := RecordFileName("docker.io/testing/test:latest"); got != "sha256-aef2af226629a35d5f3ef0fdbb29fdbebf038d0acd8850590e8c48e1e283aa56" {
		t.Errorf("got %s", got)
	}
	old := strings.Replace(want, "v1beta1", "v1alpha1", 1)
	for _, data := range []string{want, old} {
		if got, err := ParseRecord(RecordFileName("sha256:1"), []byte(data)); err != nil || string(EncodeRecord(got)) != want {
			t.Errorf("%s: %v, %v", data, got, err)
		}
	}
	for data, why := range map[string]string{
		"":   "empty",
		"{}": "kind",
		strings.Replace(want, "sha256:1", "sha256:2", 1):           "not that of its file name",
		strings.Replace(want, "v1beta1", "v9", 1):                  "apiVersion",
		strings.Replace(want, "ImagePulledRecord", "Pod", 1):       "kind",
		strings.Replace(want, "lastUpdatedTime", "lastUpdated", 1): "unknown field",
		want + "{}": "more",
	} {
		check.Says(t, check.Err(ParseRecord(RecordFileName("sha256:1"), []byte(data))), why, "%s", data)
	}
	if got, err := ParseIntent(RecordFileName(img), EncodeIntent(img)); got != img || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	check.Fails(t, check.Err(ParseIntent(RecordFileName("x"), EncodeIntent(img))), "another file's")
	check.Fails(t, check.Err(ParseIntent(RecordFileName("Not An Image"), EncodeIntent("Not An Image"))), "no image")
}

func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		policy kubelet.ImagePullCredentialsVerificationPolicy
		image  string
		pulled bool
		want   bool
	}{
		{kubelet.NeverVerify, img, true, false},
		{kubelet.NeverVerifyPreloadedImages, img, true, true},
		{kubelet.NeverVerifyPreloadedImages, img, false, false},
		{kubelet.AlwaysVerify, img, false, true},
		{"", img, false, true},
		{kubelet.NeverVerifyAllowlistedImages, img, false, true},
		{kubelet.NeverVerifyAllowlistedImages, "reg.io/free:2", true, false},
		{kubelet.NeverVerifyAllowlistedImages, "reg.io/free/er:2", true, true},
		{kubelet.NeverVerifyAllowlistedImages, "reg.io:5000/team/x@sha256:4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1", true, false},
		{kubelet.NeverVerifyAllowlistedImages, "reg.io:5000/teams/x", true, true},
		{kubelet.NeverVerifyAllowlistedImages, "busybox", true, true},
		{kubelet.NeverVerifyAllowlistedImages, "Not An Image", true, true},
	} {
		p := VerificationPolicy{Verification: c.policy, Allowlist: []string{"reg.io/free", "reg.io:5000/team/*"}}
		check.Equal(t, p.Verifies(c.image, c.pulled), c.want, "%s %s, pulled %v", c.policy, c.image, c.pulled)
	}
}

func TestAllows(t *testing.T) {
	mine := secretOf("1", "mine", "p")
	of := func(offers ...Offer) *Record { r, _ := AddPull(nil, "id", img, offers, now); return r }
	many := make([]Offer, maxLearned)
	for i := range many {
		many[i] = secretOf(fmt.Sprint(i), fmt.Sprint("s", i), fmt.Sprint(i))
	}
	for _, c := range []struct {
		name    string
		record  *Record
		image   string
		offers  []Offer
		ok      bool
		learned bool
	}{
		{"no record", nil, img, []Offer{mine}, false, false},
		{"nobody knows with what", of(), img, []Offer{mine, node}, false, false},
		{"everybody's", of(node), img, nil, true, false},
		{"another tag", of(node), "reg.io/app:2", nil, true, false},
		{"another name of the same image", of(node), "other.io/app:1", nil, false, false},
		{"the same secret", of(mine), img, []Offer{mine}, true, false},
		{"no secret", of(mine), img, nil, false, false},
		{"another secret", of(mine), img, []Offer{secretOf("2", "other", "q")}, false, false},
		{"another secret with the same content", of(mine), img, []Offer{secretOf("2", "other", "p")}, true, true},
		{"the same secret with another content", of(mine), img, []Offer{secretOf("1", "mine", "new")}, true, true},
		{"a secret of that name that was made again", of(mine), img, []Offer{secretOf("2", "mine", "new")}, false, false},
		{"one of several", of(mine), img, []Offer{secretOf("2", "other", "q"), mine}, true, false},
		{"the same content as one of many", of(many...), img, []Offer{secretOf("x", "other", "7")}, true, false},
		{"another content in one of many", of(many...), img, []Offer{secretOf("7", "s7", "new")}, false, false},
		{"the node's own credential is not one of a pod", of(mine), img, []Offer{node}, false, false},
		{"the account", of(accountOf("robot")), img, []Offer{node, accountOf("robot")}, true, false},
		{"another account", of(accountOf("robot")), img, []Offer{accountOf("other"), accountOf("robot")}, false, false},
		{"a secret or an account", of(mine, accountOf("robot")), img, []Offer{accountOf("robot")}, true, false},
	} {
		ok, learned := RecordAllows(c.record, c.image, c.offers)
		if ok != c.ok || (learned != nil) != c.learned {
			t.Errorf("%s: %v, %v", c.name, ok, learned)
		}
		if learned == nil {
			continue
		}
		next, changed := AddPull(c.record, "id", c.image, []Offer{*learned}, now)
		if ok, again := RecordAllows(next, c.image, c.offers); !changed || !ok || again != nil {
			t.Errorf("%s: it is not learned: %v, %v, %v", c.name, changed, ok, again)
		}
	}
	broken := of(mine)
	broken.CredentialMapping["reg.io/app"].KubernetesSecrets[0].CredentialHash = ""
	if ok, _ := RecordAllows(broken, img, []Offer{secretOf("2", "other", "p")}); ok {
		t.Error("an empty hash fits")
	}
}

// TestAdd: a record never loses those who may use it, and is written only if it changes.
func TestAdd(t *testing.T) {
	a, b := secretOf("1", "b", "p"), secretOf("2", "a", "q")
	r, changed := AddPull(nil, "id", img, nil, now)
	if !changed || r.ImageRef != "id" || len(r.CredentialMapping) > 0 {
		t.Errorf("%v, %v", r, changed)
	}
	later := now.Add(time.Hour)
	steps := []struct {
		offers  []Offer
		changed bool
		secrets int
		node    bool
	}{{nil, false, 0, false}, {[]Offer{a}, true, 1, false}, {[]Offer{a}, false, 1, false}, {[]Offer{b}, true, 2, false},
		{[]Offer{accountOf("robot")}, true, 2, false}, {[]Offer{accountOf("robot")}, false, 2, false},
		{[]Offer{node}, true, 0, true}, {[]Offer{a}, false, 0, true}}
	for i, s := range steps {
		before := string(EncodeRecord(r))
		next, changed := AddPull(r, "id", img, s.offers, later)
		of, _ := CredentialsFor(next, img)
		check.Fatal(t, check.Is(string(EncodeRecord(r)), before, "%d: the old one was changed", i))
		if changed != s.changed || len(of.KubernetesSecrets) != s.secrets || of.NodePodsAccessible != s.node {
			t.Errorf("%d: %v, %+v", i, changed, of)
		}
		if of.NodePodsAccessible && len(of.KubernetesServiceAccounts) > 0 {
			t.Errorf("%d: %+v", i, of)
		}
		if len(of.KubernetesSecrets) == 2 && of.KubernetesSecrets[0].Name != "a" {
			t.Errorf("%d: not sorted: %+v", i, of)
		}
		r = next
	}
	for i := range maxKnown + 10 {
		r, _ = AddPull(r, "id", "reg.io/many", []Offer{secretOf(fmt.Sprint(i), "s", fmt.Sprint(i))}, now)
	}
	if of, _ := CredentialsFor(r, "reg.io/many"); len(of.KubernetesSecrets) != maxKnown {
		t.Errorf("%d secrets", len(of.KubernetesSecrets))
	}
}

// TestPreloaded: an image that was there before it was pulled is everybody's under the names that it had, until it is
// pulled under one of them.
func TestPreloaded(t *testing.T) {
	const digest = "@sha256:4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1"
	had := []string{"docker.io/library/box:1", "docker.io/library/box" + digest, "reg.io:5000/old:2", "reg.io/app:0", "<none>:<none>"}
	for name, offers := range map[string][]Offer{"with a secret": {secretOf("1", "mine", "p")}, "without one": {node}, "nobody knows": nil} {
		r, changed := AddPull(nil, "id", img, offers, now, had...)
		r, err := ParseRecord(RecordFileName("id"), EncodeRecord(r)) // as the next agent reads it
		check.Fatal(t, err)
		again, twice := AddPull(r, "id", img, offers, now, "reg.io/late:1")
		if !changed || twice || again != r {
			t.Errorf("%s: %v", name, again)
		}
		for image, want := range map[string]bool{
			"box:1": true, "docker.io/library/box:1": true, "box" + digest: true, "box:9" + digest: true, "reg.io:5000/old:2": true,
			"box": false, "box:2": false, "quay.io/box:1": false, "reg.io/old:2": false, "reg.io/late:1": false, "id": false, "Not An Image": false,
			img: false, "reg.io/app:0": false, // of the repository that was pulled
		} {
			check.Equal(t, Preloaded(r, image), want, "%s: %s", name, image)
			if _, is := CredentialsFor(r, image); is != (Repository(image) == "reg.io/app" && offers != nil) {
				t.Errorf("%s: %s has credentials", name, image)
			}
		}
		for _, offers := range [][]Offer{{secretOf("2", "other", "q")}, nil} {
			pulled, changed := AddPull(r, "id", "docker.io/library/box:3", offers, now)
			if !changed || Preloaded(pulled, "box:1") || !Preloaded(pulled, "reg.io:5000/old:2") || !Preloaded(r, "box:1") {
				t.Errorf("%s: another tag was pulled: %v", name, pulled)
			}
		}
		// A kubelet adds what it pulls with to the names of pulls.
		ofKubelet := r.DeepCopy()
		ofKubelet.CredentialMapping["box"] = kubelet.ImagePullCredentials{NodePodsAccessible: true}
		if Preloaded(ofKubelet, "box:1") {
			t.Errorf("%s: a kubelet has pulled it", name)
		}
	}
	if old, _ := AddPull(nil, "id", img, nil, now); Preloaded(old, "box:1") || Preloaded(nil, "box:1") {
		t.Error("nobody knows what was there before")
	}
}
