package node

import (
	"github.com/troupe-dev/troupe/supervisor/host/disk/pullrecords"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/credentialplugins"
)

// connectCredentials puts behind ports what images are pulled with on this machine, and the records of that.
func (d *nodeDaemon) connectCredentials() error {
	providers, hash := d.Config.CredentialProviders()
	if hash != "" {
		d.counters.ProvidersConfigured(hash)
	}
	plugins := credentialplugins.New(credentialplugins.Config{
		Dir: d.Config.Options().CredentialProviderBinDir, Root: d.rootDir(), Log: d.Log, Ran: d.counters.CredentialPluginRan,
	})
	d.closers = append(d.closers, plugins.Close)
	d.settings.Providers = providers
	d.settings.Ports.CredentialPlugins, d.settings.Ports.PullRecords = plugins, pullrecords.New(d.rootDir())
	return nil
}
