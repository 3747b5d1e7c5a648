package check

import "errors"

// ended is how OK ends a function.
type ended struct{ err error }

// OK ends the function at an error, which is then the function's: it has deferred Return. This is for functions that have
// no test to fail, and give back any error.
func OK(err error) {
	if err != nil {
		panic(ended{err})
	}
}

// Must is what a call gave. An error ends the function as OK does.
func Must[T any](value T, err error) T {
	OK(err)
	return value
}

// Must2 is Must for two of them.
func Must2[T, U any](one T, other U, err error) (T, U) {
	OK(err)
	return one, other
}

// Return is deferred first by a function that OK may end, and not by one in which OK is in a closure that runs elsewhere.
func Return(err *error) { Ended(recover(), err) }

// Ended is for a deferred function that asks why it comes to the end, and so recovers by itself.
func Ended(recovered any, err *error) {
	switch e := recovered.(type) {
	case nil:
	case ended:
		if *err == nil {
			*err = e.err
		} else {
			*err = errors.Join(e.err, *err)
		}
	default:
		panic(recovered)
	}
}

// Try does what OK may end.
func Try(do func() error) (err error) {
	defer Return(&err)
	return do()
}
