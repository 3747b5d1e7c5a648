package check

import (
	"errors"
	"testing"
)

func TestReturn(t *testing.T) {
	broken, dirty := errors.New("broken"), errors.New("dirty")
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"nothing": {func() error { OK(nil); return nil }, ""},
		"ended":   {func() error { OK(broken); panic("it goes on") }, "broken"},
		"value": {func() error {
			if Must(1, nil) != 1 {
				panic("another value")
			}
			Must(1, broken)
			panic("it goes on")
		}, "broken"},
		"values": {func() error {
			if one, other := Must2(1, "2", nil); one != 1 || other != "2" {
				panic("other values")
			}
			Must2(1, 2, broken)
			panic("it goes on")
		}, "broken"},
		"its own": {func() error { return broken }, "broken"},
		"cleaned up": {func() (err error) {
			defer Return(&err)
			defer func() { err = dirty }()
			OK(broken)
			return nil
		}, "broken\ndirty"},
		"asked": {func() (err error) {
			defer func() {
				Ended(recover(), &err)
				err = errors.Join(err, dirty)
			}()
			OK(broken)
			return nil
		}, "broken\ndirty"},
	} {
		said := ""
		if err := Try(c.do); err != nil {
			said = err.Error()
		}
		Equal(t, said, c.want, "%s", name)
	}
	defer func() { Equal(t, recover(), any("a bug"), "a panic of others") }()
	_ = Try(func() error { panic("a bug") })
}
