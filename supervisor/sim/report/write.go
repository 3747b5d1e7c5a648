package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
)

//go:embed report.html.tmpl
var pageText string

//go:embed story.html.tmpl
var storyText string

//go:embed report.css
var style string

//go:embed story.css
var storyStyle string

//go:embed report.js
var script string

// document is the page with what makes it one file.
type document struct {
	page
	Style, Script template.HTML
	// Policy lets the browser load nothing, and run nothing but our script: whatever a pod is called.
	Policy string
}

var pageTemplate = template.Must(template.Must(template.New("report").Parse(pageText)).Parse(storyText))

// Write writes the report of a run as one HTML file of at most 2 MiB. Equal data give equal bytes.
// The error names the field that can't be drawn, see [Data.Validate], or is that of the writer. Of
// bad data nothing is written.
func Write(w io.Writer, d Data) error {
	if err := d.Validate(); err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(script))
	sheet := style
	if d.Story != nil {
		sheet += storyStyle
	}
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, document{
		page:  newPage(&d),
		Style: template.HTML("<style>\n" + sheet + "</style>"), Script: template.HTML("<script>" + script + "</script>"),
		Policy: "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" +
			base64.StdEncoding.EncodeToString(hash[:]) + "'",
	})
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
