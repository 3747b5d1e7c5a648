package host

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/userns"
	"github.com/troupe-dev/troupe/actors/port"
)

func podOf(uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid)}}
}

// TestUserNamespace: a pod has the same IDs each time, over a restart too, nobody
// has those of another, and they are free when the pod's directory is gone.
func TestUserNamespace(t *testing.T) {
	l := newLab(t)
	r, err := userns.NewRange(userns.Unit, 3*userns.Unit, userns.Unit)
	if err != nil {
		t.Fatal(err)
	}
	give := func(h *Host, uid string) userns.Mapping {
		t.Helper()
		m, err := h.UserNamespace(podOf(uid), r)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	var all sync.WaitGroup
	got := make([]userns.Mapping, 3)
	for i, uid := range []string{"a", "b", "c"} {
		all.Go(func() { got[i], _ = l.UserNamespace(podOf(uid), r) })
	}
	all.Wait()
	if got[0] == got[1] || got[1] == got[2] || got[0] == got[2] || got[0].Length != userns.Unit {
		t.Fatalf("three pods got %v", got)
	}
	if _, err := l.UserNamespace(podOf("d"), r); err == nil || !strings.Contains(err.Error(), "all 3 blocks") {
		t.Errorf("a fourth pod: %v", err)
	}
	if m := give(newLabAt(t, l.root), "b"); m != got[1] {
		t.Errorf("after a restart b has %v, not %v", m, got[1])
	}
	done := make(chan error, 1)
	l.RemovePod(ctx(t), port.PodDirs{UID: "b", Namespace: "default", Name: "b"}, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if m := give(l.Host, "d"); m != got[1] {
		t.Errorf("d has %v, not what b left, %v", m, got[1])
	}

	other := r
	other.PerPod = 2 * userns.Unit
	if _, err := l.UserNamespace(podOf("a"), other); err == nil || !strings.Contains(err.Error(), "outside the current range of this node") {
		t.Errorf("with another length: %v", err)
	}
	// One that can't be read may be anybody's.
	if err := os.WriteFile(filepath.Join(l.pods.path, "a", usersName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"a", "e"} {
		if _, err := l.UserNamespace(podOf(uid), r); err == nil || !strings.Contains(err.Error(), "user ID mapping in "+filepath.Join(l.pods.path, "a", usersName)) {
			t.Errorf("%s, with a file that says nothing: %v", uid, err)
		}
	}
	if _, err := l.UserNamespace(podOf("../x"), r); err == nil {
		t.Error("a UID that leads elsewhere was taken")
	}
}

func TestParseSubIDs(t *testing.T) {
	if first, count, err := parseSubIDs("0: kubelet 65536 2147483648\n"); err != nil || first != 65536 || count != 1<<31 {
		t.Error(first, count, err)
	}
	for _, bad := range []string{"", "0: kubelet 65536", "0: kubelet 65536 x", "0: kubelet 65536 4294967296", "0: a 1 2\n1: a 3 4"} {
		if _, _, err := parseSubIDs(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
