package port

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
)

// CredentialPlugins are the credential provider plugins of this machine, and its docker configuration. The calling
// convention is Runtime's, and all errors are *Error. No error has anything of a credential in it.
type CredentialPlugins interface {
	// RunPlugin runs the program of a plugin once, with a request on stdin, and gives what it writes to stdout. One that
	// takes longer than a minute is killed with its process group.
	RunPlugin(ctx context.Context, p *imagepull.Provider, request []byte, done func([]byte, error))
	// DockerConfig gives the credentials that all pods of this node have: the first file that can be read of those
	// that a kubelet reads; no data if none exists; the first error if all that exist are broken.
	// legacy: it is a .dockercfg, and not a config.json.
	DockerConfig(ctx context.Context, done func(data []byte, legacy bool, err error))
}
