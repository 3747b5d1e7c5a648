// Package check says once what nearly every line of a test says: that an error which the test is not about ends it, what
// something is and was wanted to be, and that something has to come before it goes on.
package check

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
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

// Failing is what a difference is told to: a testing.TB, or a test of properties.
type Failing interface {
	Helper()
	Errorf(format string, args ...any)
}

// Equal fails the test if something is not as wanted. The format and its arguments say what it is.
func Equal[T comparable](t Failing, got, want T, format string, args ...any) {
	t.Helper()
	differs(t, got == want, got, want, format, args...)
}

// Count is Equal for words that say the value themselves, with the last verb: "it was restarted %d times".
func Count[T comparable](t Failing, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s, want %s", fmt.Sprintf(format, append(args, any(got))...), shown(want))
	}
}

// Is is nil if something is as wanted, and else an error that says what it is.
func Is[T comparable](got, want T, format string, args ...any) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s: %s, want %s", fmt.Sprintf(format, args...), shown(got), shown(want))
}

// Has fails the test if a text does not contain words.
func Has(t Failing, text, words, format string, args ...any) {
	t.Helper()
	if !strings.Contains(text, words) {
		t.Errorf("%s: %q, want %q in it", fmt.Sprintf(format, args...), text, words)
	}
}

// Same is Equal for slices: none is the same as an empty one.
func Same[S ~[]E, E comparable](t Failing, got, want S, format string, args ...any) {
	t.Helper()
	differs(t, slices.Equal(got, want), got, want, format, args...)
}

// Deep is Equal for what reflect.DeepEqual compares.
func Deep(t Failing, got, want any, format string, args ...any) {
	t.Helper()
	differs(t, reflect.DeepEqual(got, want), got, want, format, args...)
}

func differs(t Failing, equal bool, got, want any, format string, args ...any) {
	t.Helper()
	if !equal {
		t.Errorf("%s: %s, want %s", fmt.Sprintf(format, args...), shown(got), shown(want))
	}
}

// AtMost fails the test if something is more than its bound.
func AtMost[T cmp.Ordered](t Failing, got, bound T, format string, args ...any) {
	t.Helper()
	if got > bound {
		t.Errorf("%s: %v, want at most %v", fmt.Sprintf(format, args...), got, bound)
	}
}

// AtLeast fails the test if something is less than its bound.
func AtLeast[T cmp.Ordered](t Failing, got, bound T, format string, args ...any) {
	t.Helper()
	if got < bound {
		t.Errorf("%s: %v, want at least %v", fmt.Sprintf(format, args...), got, bound)
	}
}

// None fails the test if there is something.
func None[E any](t Failing, all []E, format string, args ...any) {
	t.Helper()
	if len(all) > 0 {
		t.Errorf("%s: %s, want none", fmt.Sprintf(format, args...), shown(all))
	}
}

// Says fails the test if there is no error with these words in it.
func Says(t Failing, err error, words, format string, args ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v, want an error that says %q", fmt.Sprintf(format, args...), err, words)
	}
}

// Fails fails the test if there is no error. The format and its arguments say what went well.
func Fails(t Failing, err error, format string, args ...any) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", fmt.Sprintf(format, args...))
	}
}

// Err is the error of a call: check.Says(t, check.Err(os.ReadFile(path)), "no such file", "it").
func Err[T any](_ T, err error) error { return err }

// shown is a value with quotes where it could be taken for words.
func shown(v any) string {
	if t := reflect.TypeOf(v); t != nil && (t.Kind() == reflect.String || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String) {
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprintf("%+v", v)
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
