package admin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// page is one file: it asks for nothing but the endpoints beside it.
var page = []byte(strings.NewReplacer("/*STYLE*/", pageStyle, "/*SCRIPT*/", pageScript).Replace(pageText))

// policy lets the browser run our script and style alone, whatever a pod is
// called, and send requests only to this server.
var policy = "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; " +
	"style-src '" + hashOf(pageStyle) + "'; script-src '" + hashOf(pageScript) + "'"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Write(page)
}
