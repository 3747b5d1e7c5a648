package strictyaml

import (
	"reflect"
	"regexp"
	"strings"
)

// fieldsOf gives the JSON names of a struct with the types behind them,
// embedded structs flattened as encoding/json does.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		inline := f.Anonymous && name == "" || strings.Contains(options, "inline") && name == ""
		if !f.IsExported() && !inline {
			continue
		}
		if inline {
			embedded := f.Type
			for embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				for k, v := range fieldsOf(embedded) {
					if _, outer := fields[k]; !outer {
						fields[k] = v
					}
				}
				continue
			}
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = f.Type
	}
	return fields
}

// nearest returns the field whose name is closest to a mistyped one, or ""
// when none is close enough to be what was meant.
func nearest(typed string, fields map[string]reflect.Type) string {
	best, bestDistance := "", len(typed)/3+1
	for _, name := range sortedKeys(fields) {
		if strings.EqualFold(name, typed) {
			return name
		}
		if d := distance(strings.ToLower(typed), strings.ToLower(name), bestDistance); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance is the number of single-byte edits between a and b, or limit when
// it is at least that: names come from a file and may be long.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return min(row[len(b)], limit)
}

func joinField(at, name string) string {
	if !plainKey.MatchString(name) {
		return joinKey(at, name)
	}
	if at == "" {
		return name
	}
	return at + "." + name
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`)

// joinKey writes a map key as the API does: metadata.labels[a/b].
func joinKey(at, key string) string {
	const limit = 80
	if len(key) > limit {
		key = strings.ToValidUTF8(key[:limit], "") + "…"
	}
	return at + "[" + key + "]"
}
