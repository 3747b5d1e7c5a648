package differ

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// keys are what was seen of a pod on one node: a path, and its value in normal form.
type keys map[string]string

// named are the fields by which the objects of a list are told apart, in the order in which they are looked for.
var naming = []string{"containerPath", "mountPath", "key", "name", "type", "hostPath", "ip", "image", "pageSize"}

// unordered are lists whose order says nothing.
var unordered = regexp.MustCompile(`(apabilities|supplementalGroups|options|ondition|maskedPaths|readonlyPaths)$`)

// add adds a value of JSON, each leaf with a key of its own. Lists of objects with names are sets: their order is that of the
// runtime, and of no meaning.
func (k keys) add(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			k.set(path, "{}")
		}
		for name, of := range v {
			k.add(path+"/"+name, of)
		}
	case []any:
		k.list(path, v)
	case nil:
	case string:
		k.set(path, v)
	default:
		k.set(path, fmt.Sprint(v))
	}
}

// set sets a key, or one like it if that is taken.
func (k keys) set(path, value string) {
	at := path
	for n := 2; ; n++ {
		if _, taken := k[at]; !taken {
			break
		}
		at = path + "#" + strconv.Itoa(n)
	}
	k[at] = value
}

func (k keys) list(path string, list []any) {
	var plain []string
	for i, of := range list {
		object, is := of.(map[string]any)
		if !is {
			plain = append(plain, fmt.Sprint(of))
			continue
		}
		name := strconv.Itoa(i)
		for _, field := range naming {
			if text, is := object[field].(string); is {
				name = text
				break
			}
		}
		k.add(path+"["+name+"]", of)
	}
	if len(plain) > 0 {
		if unordered.MatchString(path) {
			slices.Sort(plain)
		}
		k.set(path, strings.Join(plain, ", "))
	}
}

// addAs adds what v is as JSON.
func (k keys) addAs(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return k.addJSON(path, text)
}

func (k keys) addJSON(path string, text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	k.add(path, value)
	return nil
}

// drop removes keys.
func (k keys) drop(those *regexp.Regexp) {
	maps.DeleteFunc(k, func(path, _ string) bool { return those.MatchString(path) })
}

// normal makes the normal form of a text of one pod on one node.
type normal struct{ *strings.Replacer }

// newNormal is one that knows these, old and new, longest old first where one begins with another.
func newNormal(pairs ...string) normal {
	var good []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] != "" {
			good = append(good, pairs[i], pairs[i+1])
		}
	}
	return normal{strings.NewReplacer(good...)}
}

// foreign are what differs from run to run.
var foreign = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "..."}, // as troupe's messages have it
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+`), "..TIME"},
	{regexp.MustCompile(`(containers/[a-z-]+)/[0-9a-f]{8}\b`), "$1/HEX"},
	{regexp.MustCompile(`:\d{5}->`), ":PORT->"},
	{regexp.MustCompile(`/proc/\d+/`), "/proc/PID/"},
	{regexp.MustCompile(`\b([ug]id)=\d{5,10}\b`), "$1=OF_USERS"}, // of a tmpfs of a pod with users of its own
	{regexp.MustCompile(`kube-api-access-[a-z0-9]{5}\b`), "kube-api-access-X"},
	{regexp.MustCompile(`\bin \d+(\.\d+)?m?s \(\d+(\.\d+)?m?s including waiting\)`), "in DURATION (DURATION including waiting)"},
	{regexp.MustCompile(`back-off \d+m?\d*s`), "back-off DURATION"},
	// A kubelet's in a downward API volume: docs/parity/differ.md, "the node's annotations".
	{regexp.MustCompile(`kubernetes\.io/config\.(seen|source)="[^"]*"\n?`), ""},
}

var webToken = regexp.MustCompile(`eyJ[\w-]+\.(eyJ[\w-]+)\.[\w-]+`)

// text is a text in normal form.
func (n normal) text(text string) string {
	text = webToken.ReplaceAllStringFunc(text, func(token string) string { return claims(webToken.FindStringSubmatch(token)[1]) })
	text = n.Replace(text)
	for _, f := range foreign {
		text = f.what.ReplaceAllString(text, f.as)
	}
	return text
}

// claims are what a token says, but for its times, of which only the distance says something.
func claims(payload string) string {
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return "a token that can't be read"
	}
	var of map[string]any
	if json.Unmarshal(text, &of) != nil {
		return "a token that can't be read"
	}
	issued, _ := of["iat"].(float64)
	ends, _ := of["exp"].(float64)
	for _, name := range []string{"iat", "exp", "nbf", "jti"} {
		delete(of, name)
	}
	of["life"] = ends - issued
	if inner, is := of["kubernetes.io"].(map[string]any); is {
		delete(inner, "warnafter")
	}
	said, _ := json.Marshal(of)
	return "TOKEN " + string(said)
}

// in is the keys in normal form.
func (n normal) in(k keys) keys {
	out := keys{}
	for _, path := range slices.Sorted(maps.Keys(k)) {
		at := n.text(path)
		if _, taken := out[at]; taken && strings.HasPrefix(at, "directory/") {
			continue // a file for each run of a container, and how many runs there were is no matter
		}
		out.set(at, n.text(k[path]))
	}
	return out
}
