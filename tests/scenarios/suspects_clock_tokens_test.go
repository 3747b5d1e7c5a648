package scenarios

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestTokensOverASetClock: a token that has expired by the wall clock is replaced within two minutes, and so is one that
// was issued before the clock was set back: if the cluster's clock was wrong too, it is not valid yet. The timer for
// that is monotonic, so that a jump or the sleep of the machine left pods with an expired token.
func TestTokensOverASetClock(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]func(w *world){
		"step": func(w *world) { w.node.StepClock(2 * time.Hour) },
		"suspend": func(w *world) {
			w.node.Suspend(2 * time.Hour)
			w.run(2 * time.Hour)
		},
		"set back": func(w *world) { w.node.StepClock(hourBack) },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newClusterNode(t, 1)
			tokens := 0
			c.fault = func(call simapi.Call) simapi.Fault {
				if call.Verb == simapi.CreateToken {
					tokens++
				}
				return simapi.Fault{}
			}
			c.kubernetes()
			c.add(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot"}})
			hour := int64(3600)
			s := aPod("web")
			s.Spec.ServiceAccountName = "robot"
			s.Spec.Volumes = []v1.Volume{{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
				Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{
					Path: "token", ExpirationSeconds: &hour,
				}}},
			}}}}
			s.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "token", MountPath: "/token"}}
			c.create(s)
			w.until(time.Minute, "it is ready", func() bool { return c.ready("web") })
			w.run(5 * time.Minute)
			check.Fatal(t, check.Is(tokens, 1, "%d tokens, want 1", tokens))
			jump(w)
			w.run(2 * time.Minute)
			check.AtLeast(t, tokens, 2, "the token was not replaced")
		})
	}
}
