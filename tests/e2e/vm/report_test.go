package vm

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

//tier:unit
func TestReport(t *testing.T) {
	var port bytes.Buffer
	r := NewReporter(&port)
	r.Result("2", "running", 1500*time.Millisecond, nil)
	r.Result("1.6", "limits", time.Second, errors.New("cpu.max is \"max 100000\";\n\twant 25000"))
	r.Fatal(errors.New("no space"))
	r.End()
	// A serial port ends lines as a terminal does.
	report := check.Value(ReadReport(strings.NewReader(strings.ReplaceAll(port.String(), "\n", "\r\n"))))(t)
	if !report.Ended || report.Fatal != "no space" || len(report.Strange) > 0 {
		t.Errorf("got %+v", report)
	}
	if got, ok := report.Of("2", "running"); !ok || got != (Result{Took: 1500 * time.Millisecond}) {
		t.Errorf("running: got %+v, %v", got, ok)
	}
	want := Result{Err: "cpu.max is \"max 100000\";\n\twant 25000", Took: time.Second}
	if got, ok := report.Of("1.6", "limits"); !ok || got != want {
		t.Errorf("limits: got %+v, %v", got, ok)
	}
	if _, ok := report.Of("2", "limits"); ok {
		t.Error("a check that was not made has a result")
	}
}

//tier:unit
func TestReportOfStrangeLines(t *testing.T) {
	lines := []string{"pass", "pass 2 running", "pass 2 running soon", `pass 2 running 1 "but"`, "fail 2 running 1", "fail 2 running 1 why", `fail 2 running 1 ""`, "fatal why", "end of it", "panic: no"}
	report := check.Value(ReadReport(strings.NewReader(strings.Join(lines, "\n"))))(t)
	if !reflect.DeepEqual(report.Strange, lines) || len(report.results) > 0 {
		t.Errorf("strange are %q, results %v", report.Strange, report.results)
	}
}
