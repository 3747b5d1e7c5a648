package manifest

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Small rules that the validation of single fields is made of. Each returns
// nothing when the value is good.

// invalid joins the reasons that a check of the API machinery gave.
func invalid[T any](at *field.Path, value T, reasons []string) field.ErrorList {
	if len(reasons) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, value, strings.Join(reasons, "; "))}
}

func oneOf[T ~string](at *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

func atLeast[T cmp.Ordered](at *field.Path, value, least T) field.ErrorList {
	if value >= least {
		return nil
	}
	return field.ErrorList{field.Invalid(at, value, fmt.Sprintf("must be at least %v", least))}
}

func within[T cmp.Ordered](at *field.Path, value, least, most T) field.ErrorList {
	if value >= least && value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(at, value, fmt.Sprintf("must be from %v to %v", least, most))}
}

func required(at *field.Path, value string) field.ErrorList {
	if value != "" {
		return nil
	}
	return field.ErrorList{field.Required(at, "")}
}

// inside checks a path that must stay inside the volume it is relative to.
func inside(at *field.Path, value string) field.ErrorList {
	if path.IsAbs(value) {
		return field.ErrorList{field.Invalid(at, value, "must be relative to the volume")}
	}
	return noWayUp(at, value)
}

// noWayUp checks a path that must not lead to a directory above.
func noWayUp(at *field.Path, value string) field.ErrorList {
	if slices.Contains(strings.Split(value, "/"), "..") {
		return field.ErrorList{field.Invalid(at, value, "must not contain '..'")}
	}
	return nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
