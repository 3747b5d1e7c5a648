package node

import (
	"github.com/troupe-dev/troupe/supervisor/host/disk/pullrecords"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/credentialplugins"
)

// connectCredentials puts behind ports what images are pulled with on this machine, and the records of that.
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
	l.ports.PullRecords = pullrecords.New(l.root.Path())
}
