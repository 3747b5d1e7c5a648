package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// PullRecordsSubject is one implementation of port.PullRecords, without a file.
type PullRecordsSubject struct {
	Passing
	PullRecords port.PullRecords
}

// PullRecords runs the suite for port.PullRecords. open is called once per test.
func PullRecords(t *testing.T, open func(t *testing.T) PullRecordsSubject) {
	for name, test := range map[string]func(*suite, records){
		"OnePull": testOnePull, "SetAside": testRecordSetAside, "Nothing": testRecordsOfNothing, "Memory": testRecordMemory,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			test(s.suite(t), records{s.PullRecords})
		})
	}
}

type records struct{ port.PullRecords }

// The names of files are those of images.
var intentFile, recordFile, otherFile = imagepull.RecordFileName("reg.io/app:1"), imagepull.RecordFileName("sha256:1"), imagepull.RecordFileName("sha256:2")

func (r records) want(s *suite, what string, want ...string) {
	s.Helper()
	all := begin(s, "Load", func(done func(port.PullFiles, error)) { r.Load(context.Background(), done) }).noError()
	var got []string
	for _, f := range slices.Concat(all.Intents, all.Records) {
		got = append(got, fmt.Sprintf("%v %s %s", f.Intent, short(f.Name), f.Data))
		if f.Err != nil {
			s.Errorf("%s: %s: %v", what, f.Name, f.Err)
		}
	}
	for _, name := range all.Aside {
		got = append(got, "aside "+short(name))
	}
	for _, name := range all.AsideIntents {
		got = append(got, "aside "+short(name))
	}
	slices.Sort(got)
	slices.Sort(want)
	check.Same(s, got, want, "%s: there", what)
}

func short(name string) string {
	return strings.NewReplacer(intentFile, "intent", recordFile, "record", otherFile, "other").Replace(name)
}

func (r records) intend(s *suite, data []byte) {
	s.Helper()
	beginErr(s, "SaveIntent", func(done func(error)) { r.SaveIntent(context.Background(), intentFile, data, done) }).noError()
}

func (r records) save(s *suite, name, data, intent string) {
	s.Helper()
	beginErr(s, "SavePulled", func(done func(error)) { r.SavePulled(context.Background(), name, []byte(data), intent, done) }).noError()
}

func (r records) remove(s *suite, name string) {
	s.Helper()
	beginErr(s, "RemovePulled", func(done func(error)) { r.RemovePulled(context.Background(), name, done) }).noError()
}

func (r records) setAside(s *suite, f port.PullFile) *pending[string] {
	s.Helper()
	return begin(s, "SetAside", func(done func(string, error)) { r.SetAside(context.Background(), f, done) })
}

// testOnePull: an intent, its record, and what becomes of both.
func testOnePull(s *suite, r records) {
	r.want(s, "at first")
	r.intend(s, []byte("i"))
	r.intend(s, []byte("i2"))
	r.want(s, "an intent", "true intent i2")
	r.save(s, otherFile, "o", "")
	r.want(s, "the intent stays", "true intent i2", "false other o")
	r.save(s, recordFile, "r", intentFile)
	r.want(s, "the intent goes with its record", "false record r", "false other o")
	r.intend(s, []byte("i3"))
	r.save(s, "", "", intentFile)
	r.want(s, "a pull that failed", "false record r", "false other o")
	r.save(s, recordFile, "r2", "")
	r.remove(s, otherFile)
	r.want(s, "the image has gone", "false record r2")
}

// testRecordSetAside: what is set aside is told by its name, until its image is pulled or gone.
func testRecordSetAside(s *suite, r records) {
	for range 2 {
		r.save(s, recordFile, "damaged", "")
		if where := r.setAside(s, port.PullFile{Name: recordFile}).noError(); where == "" {
			s.Errorf("nobody is told where it is")
		}
		r.want(s, "a record was set aside", "aside record")
	}
	r.intend(s, []byte("damaged"))
	r.setAside(s, port.PullFile{Name: intentFile, Intent: true}).noError()
	r.want(s, "an intent was set aside", "aside record", "aside intent")
	r.save(s, otherFile, "o", intentFile)
	r.want(s, "its image was pulled", "aside record", "false other o")
	r.remove(s, otherFile)
	r.save(s, recordFile, "r", "")
	r.want(s, "both are there", "aside record", "false record r")
	r.remove(s, recordFile)
	r.want(s, "both are gone")
}

// testRecordsOfNothing: to remove what is not there is no error.
func testRecordsOfNothing(s *suite, r records) {
	r.remove(s, recordFile)
	r.save(s, "", "", intentFile)
	r.want(s, "nothing")
	if got := eventually(s, "SetAside", r.setAside(s, port.PullFile{Name: recordFile}).got); got.err == nil {
		s.Errorf("a record that is not there was set aside")
	}
}

// testRecordMemory: the caller may use its memory again.
func testRecordMemory(s *suite, r records) {
	data := []byte("mine")
	r.intend(s, data)
	copy(data, "xxxx")
	r.want(s, "after a change by the caller", "true intent mine")
}
