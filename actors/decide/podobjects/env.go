package podobjects

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// ConfigMapKey returns the value of an environment variable from a ConfigMap. set is false if it is
// optional and missing. The errors are those that users know from kubectl.
func (s Set) ConfigMapKey(namespace string, r *v1.ConfigMapKeySelector) (value string, set bool, err error) {
	m, err := s.ConfigMap(namespace, r.Name)
	if skip, err := absent(err, r.Optional); skip || err != nil {
		return "", false, err
	}
	if value, set = m.Data[r.Key]; !set && !isTrue(r.Optional) {
		return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", r.Key, namespace, r.Name)
	}
	return value, set, nil
}

// SecretKey is ConfigMapKey for a Secret.
func (s Set) SecretKey(namespace string, r *v1.SecretKeySelector) (value string, set bool, err error) {
	m, err := s.Secret(namespace, r.Name)
	if skip, err := absent(err, r.Optional); skip || err != nil {
		return "", false, err
	}
	raw, set := m.Data[r.Key]
	if !set && !isTrue(r.Optional) {
		return "", false, fmt.Errorf("couldn't find key %s in Secret %s/%s", r.Key, namespace, r.Name)
	}
	return string(raw), set, nil
}

// EnvFrom returns the variables from a whole object, sorted by name; none if it is optional and
// missing.
func (s Set) EnvFrom(namespace string, from *v1.EnvFromSource) ([]v1.EnvVar, error) {
	var out []v1.EnvVar
	switch {
	case from.ConfigMapRef != nil:
		m, err := s.ConfigMap(namespace, from.ConfigMapRef.Name)
		if skip, err := absent(err, from.ConfigMapRef.Optional); skip || err != nil {
			return nil, err
		}
		for _, k := range slices.Sorted(maps.Keys(m.Data)) {
			out = append(out, v1.EnvVar{Name: from.Prefix + k, Value: m.Data[k]})
		}
	case from.SecretRef != nil:
		m, err := s.Secret(namespace, from.SecretRef.Name)
		if skip, err := absent(err, from.SecretRef.Optional); skip || err != nil {
			return nil, err
		}
		for _, k := range slices.Sorted(maps.Keys(m.Data)) {
			out = append(out, v1.EnvVar{Name: from.Prefix + k, Value: string(m.Data[k])})
		}
	}
	return out, nil
}

// absent says whether an object is left out because it is optional and missing.
func absent(err error, optional *bool) (bool, error) {
	if err != nil && isTrue(optional) && (StateOf(err) == Missing || StateOf(err) == unavailable) {
		return true, nil
	}
	return false, err
}

func isTrue(b *bool) bool { return b != nil && *b }
