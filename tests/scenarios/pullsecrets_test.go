package scenarios

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

const private = "private.test/app:1"

// withPrivateImage has an image that only user u with password p gets.
func withPrivateImage() option {
	return func(s *setting) {
		s.w.registry.Put(private, simcri.RegistryImage{Credential: &port.ImageAuth{Username: "u", Password: "p"}})
	}
}

func (s *spec) pullsWith(names ...string) *spec {
	for _, n := range names {
		s.Spec.ImagePullSecrets = append(s.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: n})
	}
	return s
}

func (c *cluster) pullSecret(name, user, password string) {
	c.w.t.Helper()
	c.add(&v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{"private.test":{"auth":"` + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + `"}}}`)},
	})
}

func TestPullSecrets(t *testing.T) {
	w, c := parallelCluster(t, 1, withPrivateImage())
	c.kubernetes()
	c.pullSecret("right", "u", "p")
	c.pullSecret("wrong", "u", "x")

	// Two are tried; the second works.
	c.create(aPod("both").image(private).pullsWith("wrong", "right"))
	check.AtMost(t, w.until(10*time.Second, "Ready", func() bool { return c.ready("both") }), 3*time.Second, "Ready after")
	// An image that is there is used, as ever; but who pulls always needs his own.
	c.create(aPod("uses").image(private))
	always := aPod("none").image(private)
	always.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
	c.create(always)
	w.until(10*time.Second, "the image that is there", func() bool { return c.ready("uses") })
	w.run(3 * time.Second)
	if s := c.get("none").Status.ContainerStatuses[0].State.Waiting; s == nil || !strings.Contains(s.Reason+s.Message, "mage") {
		t.Errorf("a pod with no credential: %+v", s)
	}
	check.AtMost(t, w.count("both", "FailedToRetrieveImagePullSecret"), 0, "people are told of secrets that are there")
	if w.crashes > 0 {
		w.failf("%d crashes", w.crashes)
	}
}

// TestPullSecretsOfOthers: neither a pod's failure nor its success is that of one
// with another credential.
func TestPullSecretsOfOthers(t *testing.T) {
	w, c := parallelCluster(t, 1, withPrivateImage())
	c.kubernetes()
	c.pullSecret("right", "u", "p")
	all := func(name string) *spec {
		s := aPod(name).image(private)
		s.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
		return s
	}
	c.create(all("none"))
	w.run(2 * time.Minute) // the backoff of the one with none has grown
	c.create(all("mine").pullsWith("right"))
	check.AtMost(t, w.until(time.Minute, "Ready", func() bool { return c.ready("mine") }), 3*time.Second, "Ready after")
	c.create(all("at-once").pullsWith("right"), all("too"))
	w.until(10*time.Second, "Ready", func() bool { return c.ready("at-once") })
	w.run(time.Minute)
	for _, n := range []string{"none", "too"} {
		if c.ready(n) {
			t.Errorf("%s has the image that somebody else has the credential for", n)
		}
	}
}

// TestPullSecretThatComesLater: people are told, it is pulled without, and with it
// as soon as it is there.
func TestPullSecretThatComesLater(t *testing.T) {
	w, c := parallelCluster(t, 1, withPrivateImage())
	c.kubernetes()
	c.add(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "opaque"}, Data: map[string][]byte{"k": nil}})
	c.create(aPod("web").image(private).pullsWith("later", "opaque"), aPod("free").pullsWith("later"))
	w.until(10*time.Second, "one whose image is for all", func() bool { return c.ready("free") })
	w.run(3 * time.Minute)
	want := "Unable to retrieve some image pull secrets (later, opaque); attempting to pull the image may not succeed."
	if !slices.ContainsFunc(w.events, func(e port.Event) bool {
		return e.Warning && e.Reason == "FailedToRetrieveImagePullSecret" && e.Message == want
	}) {
		t.Errorf("no event says so: %+v", w.events)
	}
	c.pullSecret("later", "u", "p")
	if took := w.until(time.Minute, "Ready", func() bool { return c.ready("web") }); took > 3*time.Second {
		t.Errorf("Ready %v after its secret is there", took)
	}
}
