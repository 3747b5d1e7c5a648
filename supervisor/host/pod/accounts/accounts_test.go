package accounts

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/tests/check"
)

func podOf(uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid)}}
}

// newAccounts are those of an agent whose pods have their directories in root.
func newAccounts(t *testing.T, root string) *Accounts {
	t.Helper()
	pods := check.Value(agentdir.Open(root, agentdir.Mode))(t)
	t.Cleanup(func() {
		check.Error(t, pods.Root.Close())
	})
	return New(pods)
}

// TestUserNamespace: a pod has the same IDs each time, over a restart too, nobody
// has those of another, and they are free when the pod's directory is gone.
func TestUserNamespace(t *testing.T) {
	root := t.TempDir()
	l := newAccounts(t, root)
	r := check.Value(isolation.NewIDRange(isolation.IDUnit, 3*isolation.IDUnit, isolation.IDUnit))(t)
	give := func(a *Accounts, uid string) isolation.IDMapping {
		t.Helper()
		m := check.Value(a.UserNamespace(podOf(uid), r))(t)
		return m
	}
	var all sync.WaitGroup
	got := make([]isolation.IDMapping, 3)
	for i, uid := range []string{"a", "b", "c"} {
		all.Go(func() { got[i], _ = l.UserNamespace(podOf(uid), r) })
	}
	all.Wait()
	if got[0] == got[1] || got[1] == got[2] || got[0] == got[2] || got[0].Length != isolation.IDUnit {
		t.Fatalf("three pods got %v", got)
	}
	check.Says(t, check.Err(l.UserNamespace(podOf("d"), r)), "all 3 blocks", "a fourth pod")
	check.Equal(t, give(newAccounts(t, root), "b"), got[1], "after a restart b has")
	check.Fatal(t, l.pods.Remove(t.Context(), ".", "b"))
	if m := give(l, "d"); m != got[1] {
		t.Errorf("d has %v, not what b left, %v", m, got[1])
	}

	other := r
	other.PerPod = 2 * isolation.IDUnit
	if _, err := l.UserNamespace(podOf("a"), other); err == nil || !strings.Contains(err.Error(), "outside the current range of this node") {
		t.Errorf("with another length: %v", err)
	}
	// An empty one is none, and one that can't be read may be anybody's.
	check.Fatal(t, os.WriteFile(filepath.Join(l.pods.Path, "a", usersName), nil, 0o600))
	if m := give(l, "a"); m != got[0] {
		t.Errorf("with an empty file a has %v, not the free %v", m, got[0])
	}
	check.Fatal(t, os.WriteFile(filepath.Join(l.pods.Path, "a", usersName), []byte("{"), 0o600))
	for _, uid := range []string{"a", "e"} {
		if _, err := l.UserNamespace(podOf(uid), r); err == nil || !strings.Contains(err.Error(), "user ID mapping in "+filepath.Join(l.pods.Path, "a", usersName)) {
			t.Errorf("%s, with a file that says nothing: %v", uid, err)
		}
	}
	check.Fails(t, check.Err(l.UserNamespace(podOf("../x"), r)), "a UID that leads elsewhere was taken")
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
