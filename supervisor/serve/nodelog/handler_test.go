package nodelog

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeJournalctl has units that behave as their name says. Some write their process ID beside it.
const fakeJournalctl = `#!/bin/sh
note() { echo $$ > "${0%/*}/$1"; }
case "$*" in
--field=_SYSTEMD_UNIT)
	for u in works hangs fails floods leaves-a-child dies silent; do echo $u.service; done ;;
*--unit=hangs*)          echo a line; note hangs; exec /bin/sleep 1000 ;;
*--unit=silent*)         note silent; exec /bin/sleep 1000 >&- 2>&- ;;
*--unit=fails*)          echo Failed to get boot id: No data available >&2; exit 1 ;;
*--unit=dies*)           kill -9 $$ ;;
*--unit=floods*)         note floods; while echo a line; do :; done ;;
*--unit=leaves-a-child*) echo a line; /bin/sleep 20 & ;;
*)                       echo "$*" ;;
esac
`

// withJournal puts the fake journalctl on PATH, and returns its directory.
func withJournal(t *testing.T) string {
	dir := t.TempDir()
	check.Fatal(t,
		os.WriteFile(filepath.Join(dir, "journalctl"), []byte(fakeJournalctl), 0o700)) //nolint:gosec // it is run
	t.Setenv("PATH", dir)
	return dir
}

// logs are those of a node, with a limit.
func logs(t *testing.T, limit time.Duration) *httptest.Server {
	dir := t.TempDir()
	for name, text := range map[string]string{"syslog": "a line\n", "app.log": "of the app\n", "db/db.log": "of the db\n"} {
		check.Fatal(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		check.Fatal(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	root := check.Value(os.OpenRoot(dir))(t)
	plain := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "no query") })
	s := httptest.NewServer(New(Config{Files: root.FS(), Plain: plain, Limit: limit}))
	t.Cleanup(func() {
		s.Close()
		root.Close() //nolint:errcheck // a test
	})
	return s
}

func ask(t *testing.T, ctx context.Context, s *httptest.Server, query string) (int, string) {
	t.Helper()
	r := check.Value(http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/"+query, nil))(t)
	answer := check.Value(s.Client().Do(r))(t)
	defer answer.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Errorf("%s: %v", query, err)
	}
	return answer.StatusCode, string(text)
}

const usual = "--utc --no-pager --output=short-precise "

func TestAnswers(t *testing.T) {
	withJournal(t)
	s := logs(t, 0)
	for query, want := range map[string]string{
		"":                                   "200 no query",
		"syslog":                             "200 no query",
		"?query=works":                       "200 " + usual + "--unit=works\n",
		"?query=works&tailLines=3&pattern=x": "200 " + usual + "--lines=3 --unit=works --grep=x\n",
		"?query=fails":                       "200 Failed to get boot id: No data available\n",
		"?query=dies":                        "200 \nerror: journal output not available: signal: killed\n",
		"?query=syslog":                      "200 a line\n",
		"?query=app":                         "200 of the app\n",
		"?query=db":                          "200 of the db\n",
		"?query=work":                        "200 \nlog not found for work\n",
		"?query=..":                          "200 \nerror getting log for ..: the path leads out of the log directory\n",
		"?query=works&query=app&query=none":  "200 " + usual + "--unit=works\nof the app\n\nlog not found for none\n",
		"?query=works&query=app&boot=0": "200 " + usual + "--unit=works --boot=0\n" +
			"\noptions present and query resolved to log files for [app]\ntry without specifying options\n",
		"?query=/syslog":      "200 a line\n",
		"?query=./db/db.log":  "200 of the db\n",
		"?query=/db":          `406 query: Invalid value: ["/db"]: read db: is a directory: ask for it without a query, as a path below /logs/` + "\n",
		"?query=/../x":        `406 query: Invalid value: ["/../x"]: the path leads out of the log directory` + "\n",
		"?query=/none":        `406 query: Invalid value: ["/none"]: openat none: no such file or directory` + "\n",
		"syslog?query=works":  "406 path not allowed in query mode\n",
		"?query=works&boot=x": `400 boot: Invalid value: "x": strconv.Atoi: parsing "x": invalid syntax` + "\n",
	} {
		code, text := ask(t, t.Context(), s, query)
		check.Equal(t, fmt.Sprint(code, " ", text), want, "%s:\n got", query)
	}
}

// TestWithoutJournalctl: files are still served, and the answer says what is missing.
func TestWithoutJournalctl(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := logs(t, 0)
	_, text := ask(t, t.Context(), s, "?query=app")
	const why = "\nerror: the units of the journal are not known: exec: \"journalctl\": executable file not found in $PATH\n"
	check.Equal(t, text, "of the app\n"+why, "it")
	if _, text := ask(t, t.Context(), s, "?query=works"); text != "\nlog not found for works\n"+why {
		t.Errorf("%q", text)
	}
}

func TestGzip(t *testing.T) {
	withJournal(t)
	s := logs(t, 0)
	r := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/?query=works", nil))(t)
	r.Header.Set("Accept-Encoding", "gzip") // so the client does not unpack it
	answer := check.Value(s.Client().Do(r))(t)
	defer answer.Body.Close() //nolint:errcheck // it was read
	z := check.Value(gzip.NewReader(answer.Body))(t)
	text, err := io.ReadAll(z)
	if err != nil || string(text) != usual+"--unit=works\n" || answer.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%q, %v, %v", text, err, answer.Header)
	}
}

// gone waits until the process that a unit of the fake journal noted has ended.
func gone(t *testing.T, bin, unit string) {
	t.Helper()
	text := check.Value(os.ReadFile(filepath.Join(bin, unit)))(t)
	pid := check.Value(strconv.Atoi(strings.TrimSpace(string(text))))(t)
	state := func() string {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return ""
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		return after[:1]
	}
	for deadline := time.Now().Add(20 * time.Second); state() != "" && state() != "Z"; {
		if time.Now().After(deadline) {
			t.Fatalf("%s: process %d still runs", unit, pid)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestTooLong: a journalctl that hangs is killed when the time is over, nothing waits for what it left behind,
// and the answer says that it is not complete.
func TestTooLong(t *testing.T) {
	bin := withJournal(t)
	s := logs(t, 2*time.Second)
	const cut = "\nerror: the answer was cut off after 2s: narrow the query with sinceTime, untilTime, tailLines or pattern\n"
	var all sync.WaitGroup
	for unit, want := range map[string]string{"hangs": "a line\n" + cut, "leaves-a-child": "a line\n" + cut, "silent": cut} {
		all.Go(func() {
			if _, text := ask(t, t.Context(), s, "?query="+unit); text != want {
				t.Errorf("%s: %q, want %q", unit, text, want)
			}
		})
	}
	all.Wait()
	gone(t, bin, "silent")
	gone(t, bin, "hangs")
}

// TestClientLeaves: journalctl is killed at once.
func TestClientLeaves(t *testing.T) {
	bin := withJournal(t)
	s := logs(t, time.Hour)
	for _, unit := range []string{"hangs", "floods"} {
		ctx, leave := context.WithCancel(t.Context())
		r := check.Value(http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/?query="+unit, nil))(t)
		answer := make(chan error, 1)
		go func() {
			a, err := s.Client().Do(r)
			if err == nil {
				_, err = io.ReadFull(a.Body, make([]byte, 1<<20))
				a.Body.Close() //nolint:errcheck // the client leaves
			}
			answer <- err
		}()
		noted := func() bool {
			text, err := os.ReadFile(filepath.Join(bin, unit))
			return err == nil && len(text) > 0
		}
		for deadline := time.Now().Add(20 * time.Second); !noted() && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		leave()
		<-answer //nolint:errcheck // the client left
		gone(t, bin, unit)
	}
}

// TestClientDoesNotRead: a client that takes nothing holds neither a process nor a slot.
func TestClientDoesNotRead(t *testing.T) {
	bin := withJournal(t)
	s := logs(t, 2*time.Second)
	answers := make([]*http.Response, journalSlots)
	for i := range answers {
		answers[i] = check.Value(s.Client().Get(s.URL + "/?query=floods"))(t)
	}
	code, text := ask(t, t.Context(), s, "?query=works")
	if code != http.StatusTooManyRequests && code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if code, text = ask(t, t.Context(), s, "?query=works"); code == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d %s", code, text)
		}
	}
	gone(t, bin, "floods")
	for _, a := range answers {
		a.Body.Close() //nolint:errcheck // it was never read
	}
}

// bounded is an answer that is told until when it may be written.
type bounded struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (b *bounded) SetWriteDeadline(t time.Time) error {
	b.until = t
	return nil
}

// TestWriteDeadline: a client has little more time to read an answer than there is to write it.
func TestWriteDeadline(t *testing.T) {
	withJournal(t)
	const limit = 2 * time.Second
	w := &bounded{ResponseRecorder: httptest.NewRecorder()}
	begun := time.Now()
	New(Config{Limit: limit}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?query=works", nil))
	if w.until.Before(begun.Add(limit)) || w.until.After(time.Now().Add(limit+readSlack)) {
		t.Errorf("it may be written until %v after the request", w.until.Sub(begun))
	}
}

// TestTooManyQueries: the processes of queries are limited.
func TestTooManyQueries(t *testing.T) {
	bin := withJournal(t)
	s := logs(t, time.Hour)
	ctx, leave := context.WithCancel(t.Context())
	var answers []*http.Response
	for range journalSlots {
		r := check.Value(http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/?query=floods", nil))(t)
		a := check.Value(s.Client().Do(r))(t)
		answers = append(answers, a)
	}
	code, text := ask(t, t.Context(), s, "?query=works")
	const want = "too many requests: 8 log queries are in progress: try again\n"
	if code != http.StatusTooManyRequests || text != want {
		t.Errorf("%d %q, want %q", code, text, want)
	}
	leave()
	for _, a := range answers {
		a.Body.Close() //nolint:errcheck // the client leaves
	}
	gone(t, bin, "floods")
}
