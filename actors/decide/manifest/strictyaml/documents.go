package strictyaml

import (
	"bytes"
	"strings"
)

// Documents splits a YAML stream at its document markers and returns the
// documents that hold something besides comments and white space. A line that
// begins with "---" is a marker wherever it stands (YAML 1.2, section 9.1.2:
// such a line cannot be content), so no parsing is needed. JSON has no markers
// and is returned whole.
//
// The kubelet reads the first document of a file and silently drops the rest;
// callers here get all of them, so that they can say so.
func Documents(data []byte) [][]byte {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var docs [][]byte
	start := 0
	keep := func(end int) {
		if doc := data[start:end]; hasContent(doc) {
			docs = append(docs, doc)
		}
	}
	for pos := 0; pos < len(data); {
		end, next := len(data), len(data)
		if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
			end, next = pos+i, pos+i+1
		}
		switch line := data[pos:end]; {
		case isMarker(line, "---"):
			keep(pos)
			// What follows the marker on its own line ("--- {a: 1}") is content.
			start = pos + len("---")
		case isMarker(line, "..."):
			keep(pos)
			start = next
		}
		pos = next
	}
	keep(len(data))
	return docs
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r')
}

// hasContent tells whether anything is left of a document without its comment
// lines and directives (lines that begin with %).
func hasContent(doc []byte) bool {
	for line := range strings.Lines(string(doc)) {
		trimmed := strings.TrimSpace(line)
		if trimmed != "" && trimmed[0] != '#' && line[0] != '%' {
			return true
		}
	}
	return false
}
