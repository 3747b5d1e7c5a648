// Package check says once what nearly every line of a test says: that an error which the test is not about ends it, and
// that something has to come before it goes on.
package check

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Test is what an end is told to: a testing.TB, or a test of properties.
type Test interface {
	Helper()
	Fatal(args ...any)
}

// Fatal ends the test at an error.
func Fatal(t Test, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Error fails the test at an error, and lets it go on.
func Error(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Value is what a call gave, and ends the test at its error: check.Value(os.ReadFile(path))(t).
func Value[T any](value T, err error) func(Test) T {
	return func(t Test) T {
		t.Helper()
		Fatal(t, err)
		return value
	}
}

// Values is Value for two of them.
func Values[T, U any](one T, other U, err error) func(Test) (T, U) {
	return func(t Test) (T, U) {
		t.Helper()
		Fatal(t, err)
		return one, other
	}
}

// That is nil if something holds, and else an error with these words. They are looked at either way.
func That(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// patience is how long a test waits for what has to come. No bound of the product's is held by it.
const patience = 2 * time.Minute

// Receive is what comes from a channel.
func Receive[T any](t Test, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal(errors.New("nothing came"))
		panic("unreachable")
	}
}

// Until waits for a condition.
func Until(t Test, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); {
		if time.Now().After(end) {
			t.Fatal(fmt.Errorf("%s did not come", what))
		}
		<-time.After(5 * time.Millisecond)
	}
}
