package lab

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// SizeVariable of the environment, if it is "full", has tests that do much of the same do all of it.
const SizeVariable = "TROUPE_TEST_SIZE"

// Full says whether tests shall do all that they can, however long it takes.
func Full() bool { return os.Getenv(SizeVariable) == "full" }

// Size is how much of something a test does: small, which shows the same, or all of it in full.
func Size[N int | int64 | time.Duration](small, full N) N {
	if Full() {
		return full
	}
	return small
}

// TestedReleases are the releases of containerd that a test about all of them runs on: the newest, or all in full.
func TestedReleases() []Release {
	if Full() {
		return Releases
	}
	return Releases[len(Releases)-1:]
}

// Asked is the value of a variable of the environment without which nobody wants the test, and skips it where the variable
// is not set. Such a test is not among those of every change, of which none may be skipped.
func Asked(t testing.TB, variable, why string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Skipf("%s is not set: %s", variable, why)
	}
	return value
}

// SetParallel has more tests of a package run at once than there are cores, unless -parallel says how many: most of what they
// do is to wait. It is for TestMain.
func SetParallel() {
	const variable = "test.parallel"
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == variable })
	if given {
		return
	}
	if err := flag.Set(variable, strconv.Itoa(max(4, 2*runtime.NumCPU()))); err != nil {
		panic(err)
	}
}
