package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestOrdered: each pod is a word: its ordinal, then + ready, - not ready, ! being deleted, x ended; o of an old revision.
func TestOrdered(t *testing.T) {
	for _, c := range []struct {
		name     string
		replicas int
		pods     string
		parallel bool
		want     string
	}{
		{"nothing yet", 3, "", false, "make 0"},
		{"nothing yet, in parallel", 3, "", true, "make 0 1 2"},
		{"the first is not ready", 3, "0-", false, ""},
		{"the first is ready", 3, "0+", false, "make 1"},
		{"all ready", 3, "0+ 1+ 2+", false, ""},
		{"one is being deleted: its name is taken", 3, "0+ 1! 2+", false, ""},
		{"one is being deleted, in parallel", 3, "0+ 1! 2+", true, ""},
		{"one is gone", 3, "0+ 2+", false, "make 1"},
		{"two are gone, in parallel", 4, "1! 3+", true, "make 0 2"},
		{"one has ended", 3, "0+ 1x 2+", false, "delete 1"},
		{"scaled down, the highest first", 1, "0+ 1+ 2+", false, "delete 2"},
		{"scaled down, the highest goes", 1, "0+ 1+ 2!", false, ""},
		{"scaled down, in parallel", 1, "0+ 1+ 2+", true, "delete 2 1"},
		{"scaled down, while one is not ready", 1, "0- 1+", false, ""},
		{"scaled to none", 0, "0+ 1+", false, "delete 1"},
		{"an update begins with the highest", 3, "0+o 1+o 2+o", false, "delete 2"},
		{"an update, one by one in parallel too", 3, "0+o 1+o 2+o", true, "delete 2"},
		{"an update waits for the new one", 3, "0+o 1+o 2-", true, ""},
		{"an update goes on", 3, "0+o 1+o 2+", false, "delete 1"},
		{"an update that fails does not go on", 3, "0+o 1+o 2-", false, ""},
		{"a stranger's name", 1, "0+ 01+", false, ""},
	} {
		w := Workload{Name: "db", Replicas: c.replicas, Stateful: &Stateful{Parallel: c.parallel}}
		var pods []*v1.Pod
		for _, word := range strings.Fields(c.pods) {
			at := strings.IndexAny(word, "+-!x")
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-" + word[:at], Labels: map[string]string{revisionLabel: word[at+1:]}}}
			switch word[at] {
			case '+':
				p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
			case '!':
				p.DeletionTimestamp = &metav1.Time{}
			case 'x':
				p.Status.Phase = v1.PodFailed
			}
			pods = append(pods, p)
		}
		slices.Reverse(pods) // the order does not matter
		create, remove := w.ordered(pods, func(p *v1.Pod) bool { return p.Labels[revisionLabel] != "o" })
		var got []string
		if len(create) > 0 {
			got = append(got, "make "+strings.Trim(fmt.Sprint(create), "[]"))
		}
		if len(remove) > 0 {
			text := "delete"
			for _, p := range remove {
				text += " " + strings.TrimPrefix(p.Name, "db-")
			}
			got = append(got, text)
		}
		check.Equal(t, strings.Join(got, ", "), c.want, "%s", c.name)
	}
}
