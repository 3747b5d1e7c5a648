package manifest

import "net/url"

// ShownURL is a URL as people may see it: without its password. Of one that cannot be parsed nothing
// is shown.
func ShownURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "<masked>"
	case u.User == nil:
		return text
	}
	return u.Redacted()
}
