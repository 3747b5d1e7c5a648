package nodelog

import (
	"errors"
	"fmt"
	"net/url"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of a query (KEP-2258).
const (
	maxTailLines = 100_000
	maxServices  = 4
	maxName      = 256
	// maxPattern is less than what one argument of a command may have. The kubelet has no limit.
	maxPattern = 64 << 10
)

// Query is one request for logs of the node.
type Query struct {
	// Services are names of systemd services without .service, or of files below the log directory
	// without .log. Files are paths below the log directory.
	Services, Files []string
	Options
}

// Options narrow down the log of services. They are not for files.
type Options struct {
	// Since and Until are zero for no limit.
	Since, Until time.Time
	// Tail is the number of last lines, Boot the number of the boot: 0 is the current one, -1 the one before.
	// nil is all.
	Tail, Boot *int
	// Pattern is a regular expression that messages match; empty for all.
	Pattern string
}

var (
	atQuery   = field.NewPath("query")
	atPattern = field.NewPath("pattern")
)

// Parse reads the parameters of a request. It returns nil if none of them is of a log query. A name
// with a slash or a backslash is a file, all others are services.
func Parse(values url.Values) (*Query, field.ErrorList) {
	var q Query
	var errs field.ErrorList
	names, given := values["query"]
	for _, name := range names {
		switch {
		case strings.ContainsAny(name, `/\`):
			q.Files = append(q.Files, name)
		case strings.TrimSpace(name) != "":
			q.Services = append(q.Services, name)
		}
	}
	if given && len(q.Files)+len(q.Services) == 0 {
		errs = append(errs, field.Invalid(atQuery, names, "may not be empty"))
	}
	at := func(name string) (t time.Time) {
		text := values.Get(name)
		if text == "" {
			return t
		}
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, "invalid time format"))
		}
		return t
	}
	number := func(name string) *int {
		text := values.Get(name)
		if text == "" {
			return nil
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, err.Error()))
		}
		return &n
	}
	q.Since, q.Until = at("sinceTime"), at("untilTime")
	q.Boot, q.Tail = number("boot"), number("tailLines")
	q.Pattern = values.Get("pattern")
	if len(errs) > 0 {
		return nil, errs
	}
	if !given && q.Options == (Options{}) {
		return nil, nil
	}
	return &q, nil
}

// Validate says what cannot be answered. stat says why a file cannot be served; nil if it can.
func (q *Query) Validate(stat func(name string) error) field.ErrorList {
	var errs field.ErrorList
	invalid := func(at *field.Path, value any, format string, args ...any) {
		errs = append(errs, field.Invalid(at, value, fmt.Sprintf(format, args...)))
	}
	for _, s := range q.Services {
		if err := checkService(s); err != nil {
			invalid(atQuery, s, "%v", err)
		}
	}
	if len(q.Services) > maxServices {
		errs = append(errs, field.TooMany(atQuery, len(q.Services), maxServices))
	}
	switch {
	case len(q.Files)+len(q.Services) == 0:
		errs = append(errs, field.Required(atQuery, "cannot be empty with options"))
	case len(q.Files) > 0 && len(q.Services) > 0:
		invalid(atQuery, fmt.Sprintf("%v, %v", q.Files, q.Services), "cannot specify a file and service")
	case len(q.Files) > 1:
		invalid(atQuery, q.Files, "cannot specify more than one file")
	case len(q.Files) == 1 && q.Options != (Options{}):
		invalid(atQuery, q.Files, "cannot specify file with options")
	case len(q.Files) == 1:
		if err := stat(q.Files[0]); err != nil {
			invalid(atQuery, q.Files, "%v", err)
		}
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && q.Since.After(q.Until) {
		invalid(field.NewPath("untilTime"), q.Until.Format(time.RFC3339), "must be after `sinceTime`")
	}
	if q.Boot != nil && *q.Boot > 0 {
		invalid(field.NewPath("boot"), *q.Boot, "must be less than 1")
	}
	if q.Tail != nil {
		for _, why := range validation.IsInRange(*q.Tail, 0, maxTailLines) {
			invalid(field.NewPath("tailLines"), *q.Tail, "%s", why)
		}
	}
	if len(q.Pattern) > maxPattern {
		errs = append(errs, field.TooLong(atPattern, "", maxPattern))
	} else if strings.ContainsRune(q.Pattern, 0) {
		invalid(atPattern, q.Pattern, "must not contain a NUL byte")
	} else if _, err := syntax.Parse(q.Pattern, syntax.Perl); err != nil {
		invalid(atPattern, q.Pattern, "%v", err)
	}
	return errs
}

func checkService(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("length must be less than %d", maxName)
	}
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:@", r)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !safe(r) }) {
		return errors.New("input contains unsupported characters")
	}
	return nil
}

// arguments are journalctl's for some of the services. Each value is in one argument with its flag, so
// that none can be taken for a flag. Times are seconds since 1970, which mean the same in each time zone.
func (q *Query) arguments(services []string) []string {
	args := []string{"--utc", "--no-pager", "--output=short-precise"}
	add := func(format string, value any) { args = append(args, fmt.Sprintf(format, value)) }
	if !q.Since.IsZero() {
		add("--since=@%d", max(q.Since.Unix(), 0))
	}
	if !q.Until.IsZero() {
		add("--until=@%d", max(q.Until.Unix(), 0))
	}
	if q.Tail != nil {
		add("--lines=%d", *q.Tail)
	}
	for _, s := range services {
		add("--unit=%s", s)
	}
	if q.Pattern != "" {
		add("--grep=%s", q.Pattern)
	}
	if q.Boot != nil {
		add("--boot=%d", *q.Boot)
	}
	return args
}
