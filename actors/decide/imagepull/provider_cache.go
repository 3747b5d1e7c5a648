package imagepull

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ServiceAccount is a service account for which a plugin is asked. The zero value is none.
type ServiceAccount struct {
	UID, Namespace, Name string
	// Annotations are those that the plugin gets.
	Annotations map[string]string
	Token       string
}

// None says that there is no service account.
func (a *ServiceAccount) None() bool { return a.Name == "" }

// scope is for whom an answer counts. It has no token, only its hash.
func (p *Provider) scope(a *ServiceAccount) string {
	if p.Token == nil || a.None() {
		return ""
	}
	s := describe(a.UID, a.Namespace, a.Name)
	for _, k := range slices.Sorted(maps.Keys(a.Annotations)) {
		s += describe(k, a.Annotations[k])
	}
	if p.Token.PerToken {
		s += describe(hash(a.Token))
	}
	return s
}

// Flight tells questions that have the same answer, so that a plugin is asked once.
func (p *Provider) Flight(image string, a *ServiceAccount) string {
	if p.Token == nil || a.None() {
		return describe(image)
	}
	return describe(image, hash(a.Token)) + p.scope(a)
}

// describe joins strings so that different lists give different results.
func describe(parts ...string) string {
	var b strings.Builder
	for _, s := range parts {
		fmt.Fprintf(&b, "%d:%s;", len(s), s)
	}
	return b.String()
}

func hash(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

// CredentialCache are answers of one plugin that count for longer than one pull. The zero value is empty.
type CredentialCache struct{ entries map[string]cached }

type cached struct {
	logins []Login
	until  time.Time
}

// maxEntries bounds the answers that are kept of a plugin.
const maxEntries = 1000

// forAll can be no image and no registry.
const forAll = "<global>"

func (p *Provider) key(k CacheKeyType, r Reference, a *ServiceAccount) string {
	base := r.Name()
	switch k {
	case CacheForRegistry:
		base = r.Domain
	case CacheForAll:
		base = forAll
	case CacheForImage:
	}
	return describe(base) + p.scope(a)
}

// Get gives the logins of an answer that counts for an image now.
func (c *CredentialCache) Get(p *Provider, r Reference, a *ServiceAccount, now time.Time) ([]Login, bool) {
	for _, k := range []CacheKeyType{CacheForImage, CacheForRegistry, CacheForAll} {
		if e, ok := c.entries[p.key(k, r, a)]; ok && now.Before(e.until) {
			return e.logins, true
		}
	}
	return nil, false
}

// Put keeps an answer to a question for an image, if it is to be kept. It drops answers that count no more, and then
// the one that counts for the shortest time.
func (c *CredentialCache) Put(p *Provider, r Reference, a *ServiceAccount, of Answer, now time.Time) {
	if of.For <= 0 {
		return
	}
	if c.entries == nil {
		c.entries = map[string]cached{}
	}
	maps.DeleteFunc(c.entries, func(_ string, e cached) bool { return !now.Before(e.until) })
	if len(c.entries) >= maxEntries {
		var first string
		for k, e := range c.entries { // order-free: the key decides between equals
			if f, ok := c.entries[first]; !ok || e.until.Before(f.until) || e.until.Equal(f.until) && k < first {
				first = k
			}
		}
		delete(c.entries, first)
	}
	c.entries[p.key(of.Key, r, a)] = cached{of.Logins, now.Add(of.For)}
}

// Len is how many answers are kept.
func (c *CredentialCache) Len() int { return len(c.entries) }
