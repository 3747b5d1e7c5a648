package checkpoint

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
)

// TestFormats: what an agent reads of those before it and after it.
func TestFormats(t *testing.T) {
	type content struct{ A int }
	f := &File[content]{Name: "x"}
	const text = `{"A":3}`
	older := fmt.Sprintf(`{"sum":"crc32c:%08x","content":%s}`, crc32.Checksum([]byte(text), table), text)
	newer := string(SealAs(Format+1, []byte(text)))
	for _, tt := range []struct {
		name, data string
		fails      string
		newer      bool
	}{
		{"this agent", string(Seal([]byte(text))), "", false},
		{"one without formats", older, "", false},
		{"one without checksums", text, "", false},
		{"a newer one", newer, "a newer release of troupe wrote it, in format 2; this one reads formats up to 1", true},
		{"a newer one with another content", string(SealAs(7, []byte(`["b"]`))), "in format 7", true},
		{"a format that is damaged", strings.Replace(string(Seal([]byte(text))), `:1,`, `:9,`, 1), "the checksum", false},
		{"a newer one that is damaged", strings.Replace(newer, "3", "4", 1), "the checksum", false},
		{"nobody", "", "the file is empty", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := f.Open([]byte(tt.data))
			if tt.fails == "" && (err != nil || got.A != 3) {
				t.Errorf("got %v, %v", got, err)
			}
			if tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("got %v, %v, want %s", got, err, tt.fails)
			}
			found := Newer([]byte(tt.data))
			if (found != nil) != tt.newer || tt.newer && found.Error() != err.Error() {
				t.Errorf("newer is %v, want %v", found, tt.newer)
			}
		})
	}
}
