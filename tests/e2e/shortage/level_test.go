package shortage

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

//tier:unit
func TestSeen(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second) }
	for _, c := range []struct {
		name    string
		numbers []int64
		want    Seen
	}{
		{"below", []int64{1, 9, 2}, Seen{Peak: 9, Peaked: at(1)}},
		{"at the level", []int64{10}, Seen{Peak: 10, Peaked: at(0)}},
		{"above", []int64{5, 11, 12}, Seen{Crossed: at(1), Peak: 12, Peaked: at(2)}},
		{"above and back", []int64{5, 11, 20, 10, 9, 8}, Seen{Crossed: at(1), Peak: 20, Peaked: at(2), Relieved: at(4)}},
		{"above again, higher", []int64{11, 9, 30, 1}, Seen{Crossed: at(0), Relieved: at(1), Peak: 30, Peaked: at(2)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Seen
			for i, n := range c.numbers {
				s.add(at(i), n, 10)
			}
			check.Equal(t, s, c.want, "got")
		})
	}
}

//tier:unit
func TestFiles(t *testing.T) {
	for _, c := range []struct {
		name, stat string
		want       int64
		bad        bool
	}{
		{"v1 counts those below", "cache 9\ninactive_file 1\nactive_file 2\ntotal_cache 90\ntotal_inactive_file 10\ntotal_active_file 20\n", 30, false},
		{"v2", "anon 9\nfile 7\ninactive_anon 5\ninactive_file 1\nactive_file 2\n", 3, false},
		{"no number", "inactive_file many\n", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := files(c.stat)
			if got != c.want || (err != nil) != c.bad {
				t.Errorf("got %d, %v; want %d, error: %v", got, err, c.want, c.bad)
			}
		})
	}
}
