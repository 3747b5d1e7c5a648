package node

import (
	"github.com/troupe-dev/troupe/supervisor/host/credentialplugins"
)

// connectCredentials puts the credential provider plugins and the docker configuration of this machine behind a port.
func (l *launch) connectCredentials() {
	if _, hash := l.config.CredentialProviders(); hash != "" {
		l.counters.ProvidersConfigured(hash)
	}
	plugins := credentialplugins.New(credentialplugins.Config{
		Dir: l.config.Options().CredentialProviderBinDir, Root: l.root.Path(), Log: l.options.Log,
		Ran: l.counters.CredentialPluginRan,
	})
	l.closers = append(l.closers, plugins.Close)
	l.ports.CredentialPlugins = plugins
}
