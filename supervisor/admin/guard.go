package admin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// localOnly keeps web pages of others from reading what a browser can reach here,
// by the loopback port of `troupe web` or one that was forwarded to the socket:
// under a name of theirs (DNS rebinding), or as a part of their page.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i, name := range guarded {
			w.Header().Set(name, [...]string{"nosniff", "same-origin", "no-referrer", "no-store"}[i])
		}
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case !local(r.Host):
			refuse(w, http.StatusForbidden, "host "+r.Host+" is not allowed: use localhost")
		// A link or a bookmark leads to the page itself.
		case site != "" && site != "same-origin" && site != "none" && r.URL.Path != "/":
			refuse(w, http.StatusForbidden, "cross-site request refused")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// guarded are the headers that every answer has.
var guarded = [...]string{"X-Content-Type-Options", "Cross-Origin-Resource-Policy", "Referrer-Policy", "Cache-Control"}

// clientHost is the name that our own client asks for.
const clientHost = "troupe"

// local reports whether a Host header names this machine as a legitimate client does.
func local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "" || host == clientHost || strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.IsLoopback()
}
