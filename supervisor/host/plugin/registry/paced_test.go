package registry

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPaced: of a plugin that talks without end, what it said last is heard, and not all.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said, begun := 0, time.Now()
		var heard []string
		err := Paced(t.Context(), func() (int, error) {
			if said++; said > 2500 {
				return 0, errors.New("enough")
			}
			time.Sleep(time.Millisecond) // of the bubble's clock
			return said, nil
		}, func(_, newer int) int { return newer }, func(n int) {
			heard = append(heard, fmt.Sprintf("%d at %v", n, time.Since(begun).Round(10*time.Millisecond)))
		})
		if err == nil || err.Error() != "enough" || len(heard) > 27 || heard[0] != "1 at 0s" || heard[len(heard)-1] != "2500 at 2.5s" {
			t.Errorf("%v; heard was %q", err, heard)
		}
	})
}

// TestPacedPanics: what a plugin says may make the agent panic, as it is read or merged. Then the stream ends.
func TestPacedPanics(t *testing.T) {
	for what, merge := range map[string]func(int, int) int{
		"reading": func(_, newer int) int { return newer }, "merging": func(int, int) int { panic("merging") },
	} {
		n := 0
		err := Paced(t.Context(), func() (int, error) {
			if n++; n == 100 {
				panic("reading")
			}
			return n, nil
		}, merge, func(int) {})
		if err == nil || !strings.HasPrefix(err.Error(), "panic: "+what) {
			t.Errorf("a panic in %s: %v", what, err)
		}
	}
}

// TestBounded: what is shown of a plugin's text can be in the status of a pod.
func TestBounded(t *testing.T) {
	for text, want := range map[string]string{
		"no hardware": "no hardware", "\xff": "�", strings.Repeat("é", 1025): strings.Repeat("é", 1024) + "…",
		"x" + strings.Repeat("é", 1024): "x" + strings.Repeat("é", 1023) + "…",
	} {
		if got := Bounded(text); got != want {
			t.Errorf("%.20q: %q, want %q", text, got, want)
		}
	}
}
