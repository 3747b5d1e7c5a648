package actortest

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/smallmap"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestWords: what a message says is what is in it.
func TestWords(t *testing.T) {
	type inner struct {
		FirstSandbox int
		hidden       string
	}
	type message struct {
		inner
		Pod    *v1.Pod
		UID    types.UID
		Err    error
		At     time.Time
		Wait   time.Duration
		Of     map[string]bool
		Few    smallmap.Map[string, string]
		Many   []int
		Data   []byte
		Due    int64
		Reply  func()
		Inside *inner
		Make   bool
	}
	w := words{names: map[string]string{}}
	w.names["0123456789abcdef"] = "web"
	for _, c := range []struct {
		m    any
		want string
	}{
		{message{}, ""},
		{message{inner: inner{2, "x"}}, ": first sandbox 2, hidden x"},
		{message{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, UID: "0123456789abcdef"}, ": pod web, uid web"},
		{message{UID: "0123456789abcdea"}, ": uid #1"},
		{&message{Err: errors.New("no"), Wait: time.Second}, ": fails: no, wait 1s"},
		{message{Of: map[string]bool{"b": true, "a": false}, Few: smallmap.Map[string, string]{{Key: "k", Value: "v"}}}, ": of [a; b: yes], few [k: v]"},
		{message{Data: []byte("abc"), Due: 1893456005104268174, At: time.Unix(1, 0), Reply: func() {}}, ": data 3 bytes"},
		{message{Many: []int{1, 2, 3, 4}, Inside: &inner{1, "y"}, Make: true}, ": many 4 of them, inside (first sandbox 1, hidden y), make"},
		{message{Inside: &inner{hidden: strings.Repeat("x", 200)}}, ": inside hidden " + strings.Repeat("x", longest-len("inside hidden ")) + "…"},
	} {
		check.Equal(t, w.of(c.m), c.want, "%+v", c.m)
	}
}
