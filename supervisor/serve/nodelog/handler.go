package nodelog

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Config configures a handler.
type Config struct {
	// Files are those below the log directory. No path and no link leads out of it.
	Files fs.FS
	// Plain answers requests without a query: paths below the log directory.
	Plain http.Handler
	// Limit is how long the log of services is read. 0 is 30 s, the kubelet's.
	Limit time.Duration
}

const (
	usualLimit = 30 * time.Second
	// readSlack is how much longer than Limit a client has to read the answer.
	readSlack = 5 * time.Second
	// journalSlots bounds the journalctls that run at the same time.
	journalSlots = 8
)

type handler struct {
	Config
	slots chan struct{}
}

// New returns the handler of /logs/, with that prefix stripped but for the slash.
func New(c Config) http.Handler {
	if c.Limit <= 0 {
		c.Limit = usualLimit
	}
	return &handler{Config: c, slots: make(chan struct{}, journalSlots)}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, errs := Parse(r.URL.Query())
	switch {
	case len(errs) > 0:
		refuse(w, errs, http.StatusBadRequest)
		return
	case q == nil:
		h.Plain.ServeHTTP(w, r)
		return
	case strings.Trim(r.URL.Path, "/") != "":
		http.Error(w, "path not allowed in query mode", http.StatusNotAcceptable)
		return
	}
	if errs := q.Validate(h.stat); len(errs) > 0 {
		refuse(w, errs, http.StatusNotAcceptable)
		return
	}
	if len(q.Files) == 1 {
		h.file(w, r, q.Files[0])
		return
	}
	h.services(w, r, q)
}

func refuse(w http.ResponseWriter, errs field.ErrorList, status int) {
	http.Error(w, errs.ToAggregate().Error(), status)
}

// local is the path of a file as it is in Files. A leading slash is the log directory's.
func local(name string) (string, error) {
	name = strings.TrimLeft(name, "/")
	if !filepath.IsLocal(name) {
		return "", errors.New("the path leads out of the log directory")
	}
	return path.Clean(name), nil
}

// open opens a regular file, with its size.
func (h *handler) open(name string) (fs.File, fs.FileInfo, error) {
	name, err := local(name)
	if err != nil {
		return nil, nil, err
	}
	f, err := h.Files.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "read", Path: name, Err: errDirectory}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// errDirectory: for the log of a service, a directory of its name is no file.
var errDirectory = errors.New("is a directory: ask for it without a query, as a path below /logs/")

func (h *handler) stat(name string) error {
	f, _, err := h.open(name)
	if err != nil {
		return err
	}
	return f.Close()
}

func (h *handler) file(w http.ResponseWriter, r *http.Request, name string) {
	f, info, err := h.open(name)
	if err != nil { // it was there a moment ago
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	defer f.Close() //nolint:errcheck // it was only read
	content, is := f.(io.ReadSeeker)
	if !is {
		http.Error(w, "the file cannot be read in parts", http.StatusInternalServerError)
		return
	}
	http.ServeContent(w, r, info.Name(), info.ModTime(), content)
}

// services answers with the logs of services. Once it has begun, what goes wrong is said in the answer.
func (h *handler) services(w http.ResponseWriter, r *http.Request, q *Query) {
	select {
	case h.slots <- struct{}{}:
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, fmt.Sprintf("too many requests: %d log queries are in progress: try again", journalSlots),
			http.StatusTooManyRequests)
		return
	}
	free := func() { <-h.slots }
	w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
	ctx, cancel := context.WithTimeout(r.Context(), h.Limit)
	defer cancel()
	// Otherwise a client that does not read holds the slot for ever. A test's connection may have no deadlines.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.Limit + readSlack)) //nolint:errcheck // see above
	var out io.Writer = w
	if r.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			panic(err) // the level is a constant
		}
		defer z.Close() //nolint:errcheck // the client has gone
		out = z
	}
	j := journal{free: free}
	defer j.over()
	h.answer(ctx, out, q, &j)
	if ctx.Err() != nil && r.Context().Err() == nil {
		say(out, "error: the answer was cut off after %v: narrow the query with sinceTime, untilTime, tailLines or pattern",
			h.Limit)
	}
}

// say writes one line for people. A client that has gone gets nothing.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "\n"+format+"\n", args...) //nolint:errcheck // see above
}

func (h *handler) answer(ctx context.Context, out io.Writer, q *Query, j *journal) {
	units, err := j.units(ctx)
	var native, files []string
	for _, s := range q.Services {
		if units[s+".service"] {
			native = append(native, s)
		} else {
			files = append(files, s)
		}
	}
	if len(native) > 0 {
		// With an exit code it has said itself why. It has one also if nothing matches.
		var exit *exec.ExitError
		if err := j.copy(ctx, out, q.arguments(native)); err != nil && ctx.Err() == nil &&
			(!errors.As(err, &exit) || !exit.Exited()) {
			say(out, "error: journal output not available: %v", err)
		}
	}
	if len(files) > 0 && q.Options != (Options{}) {
		say(out, "options present and query resolved to log files for %v\ntry without specifying options", files)
		files = nil
	}
	for _, s := range files {
		if ctx.Err() != nil {
			return
		}
		h.copyFile(ctx, out, s)
	}
	if err != nil && ctx.Err() == nil {
		say(out, "error: the units of the journal are not known: %v", err)
	}
}

// copyFile writes the first file there is for a service.
func (h *handler) copyFile(ctx context.Context, out io.Writer, service string) {
	for _, name := range []string{service, service + ".log", service + "/" + service + ".log"} {
		f, info, err := h.open(name)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errDirectory):
			continue
		case err != nil:
			say(out, "error getting log for %s: %v", service, err)
			return
		}
		_, err = io.Copy(out, io.LimitReader(patient{ctx, f}, info.Size()))
		f.Close() //nolint:errcheck // it was only read
		if err != nil && ctx.Err() == nil {
			say(out, "error getting log for %s: %v", service, err)
		}
		return
	}
	say(out, "log not found for %s", service)
}

// patient is a reader that ends with ctx.
type patient struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (p patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.Reader.Read(b)
}
