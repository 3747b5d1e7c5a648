package trace

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Header is what a run was made of.
type Header struct {
	// Program is the version of the program that recorded.
	Program string `json:"program"`
	Seed    uint64 `json:"seed"`
	// Nodes and PodsPerNode are as given on the command line; 0 for those of the
	// scenario.
	Nodes       int `json:"nodes,omitempty"`
	PodsPerNode int `json:"podsPerNode,omitempty"`
	// Duration is how long the run was to be; 0 until the scenario's end.
	Duration time.Duration `json:"duration,omitempty"`
	// ScenarioName is the scenario's file, Scenario its text; empty for none.
	ScenarioName string `json:"scenarioName,omitempty"`
	Scenario     string `json:"scenario,omitempty"`
	// Probe is the period of the readiness probe of the pods; 0 for none.
	Probe time.Duration `json:"probe,omitempty"`
	// Every is the simulated time between beats.
	Every time.Duration `json:"every"`
}

// Beat is where a run stood at one time.
type Beat struct {
	// At is counted from the begin of the run.
	At time.Duration
	// Messages were handled since the begin.
	Messages uint64
	Hash     uint64
}

const (
	magic   = "troupe-trace "
	version = "1"
	// headerLimit bounds a header, in bytes: a scenario is at most a MiB.
	headerLimit = 4 << 20
	// beatLimit bounds the beats of a trace: more than two years of one a minute.
	beatLimit = 1 << 20
)

// Writer records a run.
type Writer struct {
	zip  *gzip.Writer
	last Beat
	buf  []byte
}

// NewWriter begins a trace. Close ends it, and does not close w.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(raw) > headerLimit {
		return nil, fmt.Errorf("trace: the header has %d bytes; at most %d", len(raw), headerLimit)
	}
	if _, err := io.WriteString(w, magic+version+"\n"); err != nil {
		return nil, err
	}
	t := &Writer{zip: gzip.NewWriter(w)}
	_, err = t.zip.Write(append(binary.AppendUvarint(nil, uint64(len(raw))), raw...))
	return t, err
}

// Beat notes where the run stands. Neither time nor messages may go back.
func (t *Writer) Beat(b Beat) error {
	if b.At < t.last.At || b.Messages < t.last.Messages {
		panic(fmt.Sprintf("trace: beat %+v comes after %+v", b, t.last))
	}
	t.buf = binary.AppendUvarint(t.buf[:0], uint64(b.At-t.last.At))
	t.buf = binary.AppendUvarint(t.buf, b.Messages-t.last.Messages)
	t.buf = binary.BigEndian.AppendUint64(t.buf, b.Hash)
	t.last = b
	_, err := t.zip.Write(t.buf)
	return err
}

// Interrupted notes that the run was ended here from outside, before its own end.
// Nothing but Close may follow.
func (t *Writer) Interrupted() error {
	_, err := t.zip.Write(interrupted[:])
	return err
}

// interrupted is a beat that is like no other: nothing since the last, and a hash
// of zero.
var interrupted [1 + 1 + 8]byte

// Close ends the trace.
func (t *Writer) Close() error { return t.zip.Close() }

// Reader has a trace, all of it: what is broken is found before any run.
type Reader struct {
	Header Header
	// Interrupted says that the recording was ended from outside; the run's own
	// end, and some of what was before, is not in it.
	Interrupted bool
	beats       []Beat // that are still to come
	last        Beat
}

// NewReader reads a trace.
func NewReader(r io.Reader) (*Reader, error) {
	plain := bufio.NewReader(r)
	line, err := plain.ReadSlice('\n')
	if err != nil || !strings.HasPrefix(string(line), magic) {
		return nil, errors.New("this is not a recording: it does not begin with \"troupe-trace\"")
	}
	if v := strings.TrimSpace(strings.TrimPrefix(string(line), magic)); v != version {
		return nil, fmt.Errorf("recording in format %q: this program reads format %s", v, version)
	}
	zip, err := gzip.NewReader(plain)
	if err != nil {
		return nil, broken(err)
	}
	t, in := &Reader{}, bufio.NewReader(zip)
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, broken(err)
	}
	if n > headerLimit {
		return nil, fmt.Errorf("the recording is damaged: its header has a length of %d bytes", n)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(in, raw); err != nil {
		return nil, broken(err)
	}
	if err := json.Unmarshal(raw, &t.Header); err != nil {
		return nil, broken(err)
	}
	if err := t.readBeats(in); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Reader) readBeats(in *bufio.Reader) error {
	for last := (Beat{}); ; {
		b, err := readBeat(in, last)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case t.Interrupted:
			return errors.New("the recording is damaged: it has data after its end")
		case len(t.beats) == beatLimit:
			return fmt.Errorf("the recording is damaged: it has more than %d checkpoints", beatLimit)
		case b.At == last.At && b.Messages == last.Messages && b.Hash == 0:
			t.Interrupted = true
		default:
			t.beats, last = append(t.beats, b), b
		}
	}
}

// readBeat gives io.EOF after the last.
func readBeat(in *bufio.Reader, last Beat) (Beat, error) {
	at, err := binary.ReadUvarint(in)
	if errors.Is(err, io.EOF) {
		return Beat{}, io.EOF
	}
	if err != nil {
		return Beat{}, broken(err)
	}
	messages, err := binary.ReadUvarint(in)
	if err != nil {
		return Beat{}, broken(err)
	}
	var hash [8]byte
	if _, err := io.ReadFull(in, hash[:]); err != nil {
		return Beat{}, broken(err)
	}
	b := Beat{At: last.At + time.Duration(at), Messages: last.Messages + messages, Hash: binary.BigEndian.Uint64(hash[:])}
	if b.At < last.At || b.Messages < last.Messages {
		return Beat{}, errors.New("the recording is damaged: its time goes back")
	}
	return b, nil
}

// Next gives the next beat, io.EOF after the last.
func (t *Reader) Next() (Beat, error) {
	if t.Over() {
		return Beat{}, io.EOF
	}
	t.last, t.beats = t.beats[0], t.beats[1:]
	return t.last, nil
}

// Over says that no beat is left, Last is the time of the one before.
func (t *Reader) Over() bool          { return len(t.beats) == 0 }
func (t *Reader) Last() time.Duration { return t.last.At }

func broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the recording is truncated: was the run killed?")
	}
	return fmt.Errorf("the recording is damaged: %w", err)
}

// Difference is where a replay went another way than what was recorded.
type Difference struct {
	// After is the last time at which both were the same.
	After time.Duration
	// Recorded and Replayed are the beats that differ.
	Recorded, Replayed Beat
}

func (d *Difference) Error() string {
	return fmt.Sprintf("the replay differs from the recording between %v and %v of simulated time: the replay has the "+
		"hash %016x after %d messages, the recording %016x after %d",
		d.After, max(d.Recorded.At, d.Replayed.At), d.Replayed.Hash, d.Replayed.Messages, d.Recorded.Hash,
		d.Recorded.Messages)
}

// Check holds the next beat of a replay against the recording; the error is a
// *Difference if they differ.
func (t *Reader) Check(replayed Beat) error {
	after := t.last.At
	recorded, err := t.Next()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the recording ends at %v, the replay continues", after)
	}
	if err != nil {
		return err
	}
	if recorded != replayed {
		return &Difference{After: after, Recorded: recorded, Replayed: replayed}
	}
	return nil
}

// End reports whether the recording is at its end as well.
func (t *Reader) End() error {
	b, err := t.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	default:
		return fmt.Errorf("the recording continues at %v, the replay has ended", b.At)
	}
}
