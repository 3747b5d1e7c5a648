package cri

import (
	"regexp"

	"google.golang.org/grpc/codes"

	"github.com/troupe-dev/troupe/actors/port"
)

// pullTexts are messages of failed pulls, in order: a message about a signature or credentials
// means more than a "not found" beside it. The first two of each kind are the CRI's own names
// (cri-api pkg/errors).
var pullTexts = []text{
	{kind: port.ImageSignature,
		pattern: regexp.MustCompile(`^SignatureValidationFailed|Source image rejected|signature verification failed`)},
	{kind: port.RegistryUnavailable, pattern: regexp.MustCompile(`^RegistryUnavailable`)},
	{kind: port.InvalidImageName,
		pattern: regexp.MustCompile(`failed to parse image reference|invalid reference format|could not parse image`)},
	{kind: port.ImageUnauthorized, pattern: regexp.MustCompile(
		`pull access denied|insufficient_scope|authorization failed|failed to authorize: .*(401|403)` +
			`|\b401 Unauthorized\b|\b403 Forbidden\b|unauthorized: |denied: |authentication required` +
			`|no basic auth credentials|invalid username/password|incorrect username or password`)},
	{kind: port.ImageNotFound, pattern: regexp.MustCompile(
		`manifest unknown|name unknown|repository name not known|\b404 Not Found\b|no match for platform` +
			`|: not found$|reading manifest \S+ in \S+: .*not found`)},
	{kind: port.RegistryUnavailable, pattern: regexp.MustCompile(
		`failed to do request|dial tcp|connection refused|connection reset|no such host|i/o timeout|TLS handshake` +
			`|x509: |server gave HTTP response|pinging (container|docker) registry|toomanyrequests|429 Too Many Requests` +
			`|(status|code)\b.*: 50[0234]\b|\b50[0234] (Internal|Bad|Service|Gateway)|\b50[0234] \(|unexpected EOF` +
			`|: EOF$|proxyconnect|no route to host|network is unreachable`)},
}

// pullKind is the kind of a failed pull; Other if the message is not about images.
func pullKind(code codes.Code, detail string) port.ErrorKind {
	for _, t := range pullTexts {
		if t.pattern.MatchString(detail) {
			return t.kind
		}
	}
	switch code {
	case codes.NotFound:
		return port.ImageNotFound
	case codes.Unauthenticated, codes.PermissionDenied:
		return port.ImageUnauthorized
	case codes.Canceled, codes.DeadlineExceeded:
		// Not by the client: the runtime cancelled a transfer without progress.
		return port.RegistryUnavailable
	default:
		return port.Other
	}
}
