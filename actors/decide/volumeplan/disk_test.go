package volumeplan

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
)

// TestDisks: a disk of iSCSI waits for its secret, and says what it is at.
func TestDisks(t *testing.T) {
	secret := podobjects.Entry{
		Ref: podobjects.Ref{Kind: podobjects.Secret, Namespace: "shop", Name: "chap"}, State: podobjects.Found,
		Object: &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "chap"},
			Data:       map[string][]byte{"node.session.auth.password": []byte("hush")},
		},
	}
	for _, c := range []struct {
		name   string
		change func(s *v1.ISCSIPersistentVolumeSource, secret *podobjects.Entry)
		inPod  bool
		err    string
		state  podobjects.State
		chap   string
	}{
		{name: "CHAP", chap: "hush"},
		{name: "in the pod", inPod: true, chap: "hush"},
		{name: "without CHAP", change: func(s *v1.ISCSIPersistentVolumeSource, e *podobjects.Entry) {
			s.SessionCHAPAuth = false
			e.State, e.Object = podobjects.Missing, nil
		}},
		{name: "not known yet", state: podobjects.Unknown, err: "secretRef shop/chap", change: func(_ *v1.ISCSIPersistentVolumeSource, e *podobjects.Entry) {
			e.State, e.Object = podobjects.Unknown, nil
		}},
		{name: "no such secret", state: podobjects.Missing, err: `secretRef shop/chap: secret "chap" not found`, change: func(_ *v1.ISCSIPersistentVolumeSource, e *podobjects.Entry) {
			e.State, e.Object = podobjects.Missing, nil
		}},
		{name: "a path as target", state: podobjects.Failed, err: "iqn", change: func(s *v1.ISCSIPersistentVolumeSource, _ *podobjects.Entry) { s.IQN = "../x" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, e := newWorld(), secret
			s := &v1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.1", IQN: "iqn.x:y", SessionCHAPAuth: true, SecretRef: &v1.SecretReference{Name: "chap"}}
			if c.change != nil {
				c.change(s, &e)
			}
			w.pv.Spec.ISCSI = s
			if c.inPod {
				w.pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{
					TargetPortal: s.TargetPortal, IQN: s.IQN, SessionCHAPAuth: true, SecretRef: &v1.LocalObjectReference{Name: "chap"},
				}}
			}
			objects := podobjects.NewSet(append([]podobjects.Entry{e}, w.objects().Entries()...))
			if wanted := podobjects.VolumeRefs(w.pod, objects); !slices.Contains(wanted, secret.Ref) {
				t.Errorf("the secret is not asked for: %v", wanted)
			}
			m := Plan(w.pod, objects, nil, nil)[0]
			switch {
			case c.err != "":
				if m.Err == nil || !strings.Contains(m.Err.Error(), c.err) || podobjects.StateOf(m.Err) != c.state || strings.Contains(m.Err.Error(), "hush") {
					t.Errorf("error %v (%v), want %q (%v)", m.Err, podobjects.StateOf(m.Err), c.err, c.state)
				}
			case m.Err != nil || m.Server != "iSCSI target iqn.x:y (LUN 0) at 10.0.0.1:3260" || m.CHAP.Session["node.session.auth.password"] != c.chap:
				t.Errorf("%q, error %v", m.Server, m.Err)
			}
		})
	}
	w := newWorld()
	w.pv.Spec.FC = &v1.FCVolumeSource{WWIDs: []string{"3600"}}
	if m := Plan(w.pod, w.objects(), nil, nil)[0]; m.Err != nil || m.Server != "Fibre Channel disk 3600" {
		t.Errorf("Fibre Channel: %q, %v", m.Server, m.Err)
	}
	w.pv.Spec.FC = &v1.FCVolumeSource{}
	if m := Plan(w.pod, w.objects(), nil, nil)[0]; m.Err == nil {
		t.Error("Fibre Channel without a disk")
	}
}
