package nodelog

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// asked parses and checks a query, and says what journalctl would be given.
func asked(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "bad test: " + err.Error()
	}
	q, errs := Parse(values)
	if len(errs) > 0 {
		return "400: " + errs.ToAggregate().Error()
	}
	if q == nil {
		return "no query"
	}
	stat := func(name string) error {
		if name == "/none" {
			return errors.New("no such file")
		}
		return nil
	}
	if errs := q.Validate(stat); len(errs) > 0 {
		return "406: " + errs.ToAggregate().Error()
	}
	if len(q.Files) > 0 {
		return "file " + q.Files[0]
	}
	return strings.TrimPrefix(strings.Join(q.arguments(q.Services), " "), "--utc --no-pager --output=short-precise ")
}

// TestQueries: the texts of mistakes are the kubelet's (v1.36, kubelet_server_journal.go).
func TestQueries(t *testing.T) {
	for query, want := range map[string]string{
		"":                            "no query",
		"other=1":                     "no query",
		"tailLines=&pattern=":         "no query",
		"query":                       `400: query: Invalid value: [""]: may not be empty`,
		"query=++":                    `400: query: Invalid value: ["  "]: may not be empty`,
		"query=kubelet":               "--unit=kubelet",
		"query=a&query=b":             "--unit=a --unit=b",
		"query=a&query=":              "--unit=a",
		"query=a@1.x:y_z-0":           "--unit=a@1.x:y_z-0",
		"query=-x":                    "--unit=-x",
		"query=a&boot=0":              "--unit=a --boot=0",
		"query=a&boot=-2&tailLines=0": "--lines=0 --unit=a --boot=-2",
		"query=a&tailLines=100000":    "--lines=100000 --unit=a",
		"query=a&sinceTime=2023-11-14T22:13:20Z&untilTime=2023-11-14T23:14:20%2B01:00": "--since=@1700000000 --until=@1700000060 --unit=a",
		"query=a&sinceTime=1969-01-01T00:00:00Z":                                       "--since=@0 --unit=a",
		"query=a&pattern=--boot":                                                       "--unit=a --grep=--boot",
		"query=a&pattern=%24(reboot)%3B|x":                                             "--unit=a --grep=$(reboot);|x",
		"query=/syslog":                                                                "file /syslog",
		`query=\syslog`:                                                                `file \syslog`,
		"query=a;b":                                                                    "bad test: invalid semicolon separator in query",
		"query=/none":                                                                  `406: query: Invalid value: ["/none"]: no such file`,
		"query=/a&query=b":                                                             `406: query: Invalid value: "[/a], [b]": cannot specify a file and service`,
		"query=/a&query=/b":                                                            `406: query: Invalid value: ["/a","/b"]: cannot specify more than one file`,
		"query=/a&tailLines=1":                                                         `406: query: Invalid value: ["/a"]: cannot specify file with options`,
		"tailLines=1":                                                                  "406: query: Required value: cannot be empty with options",
		"pattern=x":                                                                    "406: query: Required value: cannot be empty with options",
		"query=a%20b":                                                                  `406: query: Invalid value: "a b": input contains unsupported characters`,
		"query=a%00":                                                                   `406: query: Invalid value: "a\x00": input contains unsupported characters`,
		"query=ä":                                                                      `406: query: Invalid value: "ä": input contains unsupported characters`,
		"query=a*":                                                                     `406: query: Invalid value: "a*": input contains unsupported characters`,
		"query=" + strings.Repeat("a", 257):                                            `406: query: Invalid value: "` + strings.Repeat("a", 257) + `": length must be less than 256`,
		"query=a&query=b&query=c&query=d&query=e":                                      "406: query: Too many: 5: must have at most 4 items",
		"query=a&tailLines=-1":                                                         "406: tailLines: Invalid value: -1: must be between 0 and 100000, inclusive",
		"query=a&tailLines=100001":                                                     "406: tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive",
		"query=a&boot=1":                                                               "406: boot: Invalid value: 1: must be less than 1",
		"query=a&boot=x":                                                               `400: boot: Invalid value: "x": strconv.Atoi: parsing "x": invalid syntax`,
		"query=a&tailLines=1e3":                                                        `400: tailLines: Invalid value: "1e3": strconv.Atoi: parsing "1e3": invalid syntax`,
		"query=a&sinceTime=yesterday":                                                  `400: sinceTime: Invalid value: "yesterday": invalid time format`,
		"query=a&untilTime=1":                                                          `400: untilTime: Invalid value: "1": invalid time format`,
		"query=a&sinceTime=2026-01-02T00:00:00Z&untilTime=2026-01-01T00:00:00Z": "406: untilTime: Invalid value: \"2026-01-01T00:00:00Z\": must be after `sinceTime`",
		"query=a&pattern=(":   "406: pattern: Invalid value: \"(\": error parsing regexp: missing closing ): `(`",
		"query=a&pattern=%00": `406: pattern: Invalid value: "\x00": must not contain a NUL byte`,
		"query=a&pattern=" + strings.Repeat("x", maxPattern+1): "406: pattern: Too long: may not be more than 65536 bytes",
	} {
		check.Equal(t, asked(query), want, "%.80s:\n got", query)
	}
}

// FuzzQuery: whatever the parameters, journalctl is given nothing but flags that this package knows, each
// with its value in the same argument, and only what the kubelet would accept.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		"query=kubelet&tailLines=3", "query=/a/../b", "query=a&pattern=(&boot=-1", "query=%00", "sinceTime=2023-11-14T22:13:20Z&query=x",
		"query=--output&pattern=%0a--file=/etc/shadow", "untilTime=9999-12-31T23:59:59Z&query=a",
	} {
		f.Add(s)
	}
	known := []string{"--utc", "--no-pager", "--output=short-precise", "--since=@", "--until=@", "--lines=", "--unit=", "--grep=", "--boot="}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		q, errs := Parse(values)
		if q != nil && len(errs) > 0 {
			t.Fatal("both a query and mistakes")
		}
		if q == nil || len(q.Validate(func(string) error { return nil })) > 0 {
			return
		}
		if len(q.Files) == 1 {
			if len(q.Services) > 0 || q.Options != (Options{}) {
				t.Errorf("a file with more: %+v", q)
			}
			return
		}
		if n := len(q.Services); n == 0 || n > maxServices {
			t.Errorf("%d services", n)
		}
		args := q.arguments(q.Services)
		units := 0
		for _, a := range args {
			is := func(flag string) bool { return a == flag || strings.HasSuffix(flag, "=") && strings.HasPrefix(a, flag) }
			is2 := func(flag string) bool { return is(flag) || strings.HasSuffix(flag, "@") && strings.HasPrefix(a, flag) }
			if !slices.ContainsFunc(known, is2) || strings.ContainsRune(a, 0) {
				t.Errorf("argument %q", a)
			}
			if unit, is := strings.CutPrefix(a, "--unit="); is {
				units++
				if strings.ContainsAny(unit, "/*?[ \n") {
					t.Errorf("unit %q", unit)
				}
			}
			var seconds int64
			if n, _ := fmt.Sscanf(a, "--since=@%d", &seconds); n == 1 && seconds < 0 {
				t.Errorf("argument %q", a)
			}
		}
		check.Equal(t, units, len(q.Services), "%d units of %d services", units, len(q.Services))
	})
}
