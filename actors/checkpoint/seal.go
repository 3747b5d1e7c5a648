package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
)

// Format is the form of the checkpoints that this agent writes, and the newest that it reads. A change raises it if an
// agent without that change would misread the file; a field that such an agent may miss does not.
const Format = 1

// sealed is the form of a checkpoint on disk. It stays in all formats.
type sealed struct {
	// Format is 0 in what was written before there were formats. That is read as the first one.
	Format int `json:"format"`
	// Sum is the CRC-32C of Content, byte by byte, and of Format from the second on. Empty: written by an agent that had
	// no checksums.
	Sum     string          `json:"sum"`
	Content json.RawMessage `json:"content"`
}

// Seal adds the format and the checksum to content, which is JSON.
func Seal(content []byte) []byte { return SealAs(Format, content) }

// SealAs is Seal of an agent that writes another format.
func SealAs(format int, content []byte) []byte {
	s := sealed{Format: format, Content: content}
	return fmt.Appendf(nil, `{"format":%d,"sum":%q,"content":%s}`, format, s.sum(), content)
}

var table = crc32.MakeTable(crc32.Castagnoli)

func (s *sealed) sum() string {
	sum := crc32.Checksum(s.Content, table)
	if s.Format > 1 { // agents that had no formats check the first one
		sum = crc32.Update(sum, table, strconv.AppendInt(nil, int64(s.Format), 10))
	}
	return fmt.Sprintf("crc32c:%08x", sum)
}

// NewerError is that of a checkpoint which is whole, and of a newer agent.
type NewerError struct{ Format int }

func (e *NewerError) Error() string {
	const text = "a newer release of troupe wrote it, in format %d; this one reads formats up to %d"
	return fmt.Sprintf(text, e.Format, Format)
}

// unseal finds what is wrong with the file as a whole.
func unseal(data []byte) (s sealed, err error) {
	if len(data) == 0 {
		return s, errors.New("the file is empty")
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, err
	}
	switch {
	case s.Sum == "":
		s.Content = data
	case s.Sum != s.sum():
		return s, fmt.Errorf("the checksum of the content is %s, not %s as when it was written", s.sum(), s.Sum)
	case s.Format > Format:
		return s, &NewerError{Format: s.Format}
	}
	return s, nil
}

// Newer is the error of a checkpoint of a newer agent. What else is wrong with it, Open says.
func Newer(data []byte) *NewerError {
	_, err := unseal(data)
	newer, _ := errors.AsType[*NewerError](err)
	return newer
}

// Open decodes a checkpoint. It also reads those of agents that had no checksums: these have exactly the
// fields of T.
func (f *File[T]) Open(data []byte) (*T, error) {
	if f.Codec != nil {
		v, err := f.Codec.Parse(data)
		return &v, err
	}
	s, err := unseal(data)
	if err != nil {
		return nil, err
	}
	if s.Content = bytes.TrimSpace(s.Content); len(s.Content) == 0 || s.Content[0] != '{' {
		return nil, errors.New("the content is not a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(s.Content))
	if s.Sum == "" {
		d.DisallowUnknownFields()
	}
	v := new(T)
	if err := d.Decode(v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the content")
	}
	if err := f.validate(v); err != nil {
		return nil, err
	}
	return v, nil
}

// validate takes a panic for a no: rules that are made for whole objects meet objects with anything missing.
func (f *File[T]) validate(v *T) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the content can't be used: %v", p)
		}
	}()
	if f.Valid == nil {
		return nil
	}
	return f.Valid(v)
}
