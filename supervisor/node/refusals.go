package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/troupe-dev/troupe/apiclient/manifesturl"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/config"
)

// validate finds what is wrong with the configuration, before anything is reached or changed.
func (l *launch) validate(context.Context) error {
	var texts []string
	for _, err := range l.refusals() {
		texts = append(texts, err.Error())
	}
	if texts == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

// refusals are why this machine can't be a node with the configuration. It only reads.
func (l *launch) refusals() (why []error) {
	c := l.config
	add := func(err error) {
		if err != nil {
			why = append(why, err)
		}
	}
	var err error
	l.apiserver, err = credential(c)
	add(err)
	hostname, err := os.Hostname()
	add(err)
	if err == nil {
		l.name, err = c.NodeName(hostname)
		add(err)
	}
	l.machine, err = lookAround(c, l.name)
	add(err)
	if err == nil {
		why = append(why, l.machine.refusals(c)...)
	}
	if len(admin.SocketIn(c.Options().RootDir)) > socketPathLimit {
		add(fmt.Errorf("--root-dir %s: this path is too long for a unix socket in it: choose a shorter path",
			c.Options().RootDir))
	}
	l.static = c.StaticPods()
	if l.static.URL != "" {
		// The configuration has warned of a URL that nothing can be fetched from.
		l.fetcher, l.noFetcher = manifesturl.New(manifesturl.Config{
			URL: l.static.URL, Header: l.static.URLHeader, Timeout: manifestTimeout,
		})
	}
	if why == nil {
		l.counters, err = counters(&l.machine, l.name)
		add(err)
	}
	return why
}

// warnings are what the operator should know of a node that starts.
func (l *launch) warnings() []string {
	return append(l.config.Warnings(), l.machine.warnings(l.config)...)
}

// refusals are why this machine can't be a node with that configuration.
func (m machine) refusals(c config.Config) (why []error) {
	if c.FailSwapOn() {
		if device := swapOn(); device != "" {
			why = append(why, fmt.Errorf("failSwapOn: swap is on (%s): turn it off, or set failSwapOn: false", device))
		}
	}
	if err := m.cgroups.allowedBy(c); err != nil {
		why = append(why, err)
	}
	if c.Kubelet().ProtectKernelDefaults {
		if _, err := protectKernel(sysctlRoot, true); err != nil {
			why = append(why, err)
		}
	}
	return why
}

// warnings are what the operator should know of this machine as a node with that configuration.
func (m machine) warnings(c config.Config) []string {
	out := m.memoryWarnings(c)
	if m.noResolver != nil {
		out = append(out, "resolvConf: "+m.noResolver.Error()+": new pods that need it wait until it can be read")
	}
	if m.noLabels != nil {
		out = append(out, m.noLabels.Error())
	}
	if !m.cgroups.v2 {
		out = append(out, "this host uses cgroup v1, which is deprecated in Kubernetes: plan to boot it with cgroup v2")
	}
	return out
}
