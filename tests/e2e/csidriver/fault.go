package csidriver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/tests/check"
)

// Fault is what happens to calls of a method, such as NodeStageVolume.
type Fault struct {
	// Method is the call's name, or * for all of the node and the controller but those that are made again and again
	// (Probe, NodeGetCapabilities and the like).
	Method string
	// Code, if not OK, is what the call answers, with Message. It has done nothing, unless Done is set: then it has done
	// all and says that it failed.
	Code    codes.Code `json:",omitempty"`
	Message string     `json:",omitempty"`
	Done    bool       `json:",omitempty"`
	// Hang has the call do nothing, and not answer before the fault is over. Late has it answer so long after it has done
	// all, whether anybody waits or not. Midway has it do a part of its work, and the rest when the fault is over, whether
	// anybody waits or not; NodeExpandVolume alone has parts.
	Hang   bool          `json:",omitempty"`
	Late   time.Duration `json:",omitempty"`
	Midway bool          `json:",omitempty"`
	// Bytes, if not 0, is all that NodeGetVolumeStats says of every amount.
	Bytes int64 `json:",omitempty"`
	// Times is for how many calls it is; 0: until it is taken back.
	Times int `json:",omitempty"`
}

// Call is a line of the record of calls.
type Call struct {
	Method, Volume, Path string `json:",omitempty"`
	// Context is the volume's, as the caller gave it.
	Context map[string]string `json:",omitempty"`
	Began   time.Time
	Took    time.Duration
	Code    string
	Message string `json:",omitempty"`
	// Wrong is what the caller should not have done, if anything.
	Wrong string `json:",omitempty"`
}

func (c Call) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s %s", c.Method, c.Volume, path.Base(c.Path), c.Code, c.Message, c.Wrong))
}

// Calls reads the record of calls, in the order in which they ended.
func (c Config) Calls() (calls []Call, err error) {
	text, err := os.ReadFile(c.callsFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for err == nil && lines.Scan() {
		var call Call
		if err = json.Unmarshal(lines.Bytes(), &call); err == nil {
			calls = append(calls, call)
		}
	}
	return calls, errors.Join(err, lines.Err())
}

// faults are those that are on.
type faults struct {
	mu  sync.Mutex
	all []*fault
}

type fault struct {
	Fault
	left int // of Times
	over chan struct{}
	// hanging are the calls that do, also midway or late.
	hanging int
}

// set adds a fault, in the place of one of the same method.
func (f *faults) set(one Fault) {
	f.end(one.Method)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, &fault{Fault: one, left: one.Times, over: make(chan struct{})})
}

// end takes back the fault of a method.
func (f *faults) end(method string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.all[:0]
	for _, one := range f.all {
		if one.Method == method {
			close(one.over)
			continue
		}
		kept = append(kept, one)
	}
	f.all = kept
}

// of is the fault that a call has to suffer, if any.
func (f *faults) of(method string) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.all {
		if one.Method != method && (one.Method != "*" || quiet[method]) {
			continue
		}
		if one.Times > 0 {
			if one.left == 0 {
				continue
			}
			one.left--
		}
		return one
	}
	return nil
}

func (f *faults) count(one *fault, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.hanging += by
}

// hanging is how many calls of a method hang.
func (f *faults) hanging(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.all {
		if one.Method == method {
			n += one.hanging
		}
	}
	return n
}

// midwayKey has, in the context of a call, what the call does midway.
type midwayKey struct{}

// midway is where a call has done a part of its work.
func midway(ctx context.Context) {
	if wait, is := ctx.Value(midwayKey{}).(func()); is {
		wait()
	}
}

// call does a call, with the fault that it has to suffer; nil for none.
func (f *faults) call(ctx context.Context, one *fault, do func(context.Context) (any, error)) (any, error) {
	switch {
	case one == nil:
		return do(ctx)
	case one.Hang:
		f.count(one, 1)
		select {
		case <-ctx.Done():
		case <-one.over:
		}
		f.count(one, -1)
		return nil, status.Error(codes.Unavailable, "the call hung")
	case one.Code != codes.OK && !one.Done:
		return nil, status.Error(one.Code, one.Message)
	}
	if one.Midway {
		ctx = context.WithValue(ctx, midwayKey{}, func() {
			f.count(one, 1)
			<-one.over
			f.count(one, -1)
		})
	}
	answer, err := do(ctx)
	if s, is := answer.(*csi.NodeGetVolumeStatsResponse); is && one.Bytes != 0 {
		for _, u := range s.GetUsage() {
			u.Total, u.Available, u.Used = one.Bytes, one.Bytes, one.Bytes
		}
	}
	if one.Late > 0 {
		f.count(one, 1)
		select {
		case <-time.After(one.Late):
		case <-one.over:
		}
		f.count(one, -1)
	}
	if err == nil && one.Code != codes.OK {
		return nil, status.Error(one.Code, one.Message)
	}
	return answer, err
}

// ServeHTTP is for [Config.Set], [Config.End], [Config.Hanging] and [Config.SetAbnormal].
func (d *Driver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := errors.New("want PUT /fault, DELETE /fault/METHOD or PUT /abnormal/VOLUME")
	switch name := path.Base(r.URL.Path); {
	case r.Method == http.MethodPut && r.URL.Path == "/fault":
		var one Fault
		if err = json.NewDecoder(r.Body).Decode(&one); err == nil {
			d.faults.set(one)
		}
	case r.Method == http.MethodGet && path.Dir(r.URL.Path) == "/hanging":
		_, err = fmt.Fprint(w, d.faults.hanging(name))
	case r.Method == http.MethodDelete:
		d.faults.end(name)
		err = nil
	case r.Method == http.MethodPut && path.Dir(r.URL.Path) == "/abnormal":
		var what string
		if err = json.NewDecoder(r.Body).Decode(&what); err == nil {
			err = d.withVolume(name, func(v *Volume) error {
				v.Abnormal = what
				return nil
			})
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// Set has calls of a running driver suffer a fault, until its process ends.
func (c Config) Set(ctx context.Context, f Fault) error {
	_, err := c.control(ctx, http.MethodPut, "/fault", f)
	return err
}

// End takes back the fault of a method. Calls that hang by it answer.
func (c Config) End(ctx context.Context, method string) error {
	_, err := c.control(ctx, http.MethodDelete, "/fault/"+method, nil)
	return err
}

// SetAbnormal sets what is wrong with a volume; nothing if it is empty.
func (c Config) SetAbnormal(ctx context.Context, volume, what string) error {
	_, err := c.control(ctx, http.MethodPut, "/abnormal/"+volume, what)
	return err
}

// Hanging is how many calls of a method hang by a fault; none if the driver does not run.
func (c Config) Hanging(ctx context.Context, method string) (n int) {
	text, err := c.control(ctx, http.MethodGet, "/hanging/"+method, nil)
	if err == nil {
		n, err = strconv.Atoi(text)
	}
	if err != nil {
		return 0
	}
	return n
}

func (c Config) control(ctx context.Context, method, at string, body any) (answer string, err error) {
	defer check.Return(&err)
	text := check.Must(json.Marshal(body))
	request := check.Must(http.NewRequestWithContext(ctx, method, "http://driver"+at, bytes.NewReader(text)))
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.Control)
	}}
	defer transport.CloseIdleConnections()
	response := check.Must((&http.Client{Transport: transport}).Do(request))
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s %s of driver %s: %s", method, at, c.Name, response.Status)
	}
	out, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return string(out), err
}

// intercept lets calls suffer their faults, and writes them down.
func (d *Driver) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	call := Call{Method: path.Base(info.FullMethod), Began: time.Now()}
	if r, ok := request.(interface{ GetVolumeId() string }); ok {
		call.Volume = r.GetVolumeId()
	}
	if r, ok := request.(interface{ GetVolumeContext() map[string]string }); ok {
		call.Context = r.GetVolumeContext()
	}
	switch r := request.(type) {
	case interface{ GetTargetPath() string }:
		call.Path = r.GetTargetPath()
	case interface{ GetStagingTargetPath() string }:
		call.Path = r.GetStagingTargetPath()
	case interface{ GetVolumePath() string }:
		call.Path = r.GetVolumePath()
	}
	do := func(ctx context.Context) (any, error) {
		defer d.alone(call.Volume)()
		return handle(ctx, request)
	}
	fault := d.faults.of(call.Method)
	answer, err := d.faults.call(ctx, fault, do)
	var w *wrongCall
	if errors.As(err, &w) {
		call.Wrong, err = w.what, status.Error(codes.FailedPrecondition, w.what)
	}
	s := status.Convert(err)
	call.Took, call.Code, call.Message = time.Since(call.Began), s.Code().String(), s.Message()
	if !quiet[call.Method] || fault != nil {
		d.record(call)
	}
	return answer, err
}

// quiet are calls that are made again and again. Nobody wants to read them, or see them fail, unless a fault names them.
var quiet = map[string]bool{
	"Probe": true, "GetPluginInfo": true, "GetPluginCapabilities": true, "ControllerGetCapabilities": true, "NodeGetCapabilities": true,
	"ListVolumes": true, "GetInfo": true,
}

// wrongCall is an error of a caller that did not do first what it has to.
type wrongCall struct{ what string }

func (w *wrongCall) Error() string { return w.what }

func wrong(format string, args ...any) error { return &wrongCall{fmt.Sprintf(format, args...)} }

// alone waits until no other call is at a volume, and returns what lets the next one in.
func (d *Driver) alone(volume string) (done func()) {
	if volume == "" {
		return func() {}
	}
	lock, _ := d.busy.LoadOrStore(volume, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	return lock.(*sync.Mutex).Unlock
}

// record writes a call down. Who reads it sees whole lines.
func (d *Driver) record(call Call) {
	line, err := json.Marshal(call)
	if err != nil {
		panic(err) // strings and numbers can be written
	}
	f, err := os.OpenFile(d.config.callsFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		d.log("record a call: %v", err)
	}
}
