// Package check says once what nearly every line of a test says: that an error which the test is not about ends it.
package check

import (
	"fmt"
	"testing"
)

// Fatal ends the test at an error.
func Fatal(t testing.TB, err error) {
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
func Value[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Fatal(t, err)
		return value
	}
}

// That is nil if something holds, and else an error with these words. They are looked at either way.
func That(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}
