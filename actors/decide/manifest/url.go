package manifest

import "net/url"

// ShownURL is a URL without its password, for people. A URL that cannot be parsed is masked.
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
