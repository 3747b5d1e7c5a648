package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// sealed is the form of a checkpoint on disk.
type sealed struct {
	// Sum is the CRC-32C of Content, byte by byte. Empty: written by an agent that had no checksums.
	Sum     string          `json:"sum"`
	Content json.RawMessage `json:"content"`
}

// Seal adds the checksum to content, which is JSON.
func Seal(content []byte) []byte {
	return fmt.Appendf(nil, `{"sum":%q,"content":%s}`, sum(content), content)
}

var table = crc32.MakeTable(crc32.Castagnoli)

func sum(content []byte) string { return fmt.Sprintf("crc32c:%08x", crc32.Checksum(content, table)) }

// Open decodes a checkpoint. It also reads those of agents that had no checksums: these have exactly the
// fields of T.
func (f *File[T]) Open(data []byte) (*T, error) {
	if len(data) == 0 {
		return nil, errors.New("the file is empty")
	}
	var s sealed
	strict := false
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	switch {
	case s.Sum == "":
		s.Content, strict = data, true
	case s.Sum != sum(s.Content):
		return nil, fmt.Errorf("the checksum of the content is %s, not %s as when it was written", sum(s.Content), s.Sum)
	}
	if s.Content = bytes.TrimSpace(s.Content); len(s.Content) == 0 || s.Content[0] != '{' {
		return nil, errors.New("the content is not a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(s.Content))
	if strict {
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
