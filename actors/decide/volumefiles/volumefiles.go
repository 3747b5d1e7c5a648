// Package volumefiles decides the content of volumes that are made of API objects: configMap,
// secret, downwardAPI and projected.
//
//	pod + volume + apiobjects ──► files {path, data, mode, owner}, or why not
//
// Its errors have the words that users know. podobjects.StateOf is Unknown for an error that only
// says that an object is not known yet.
package volumefiles

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Content is the whole content of a volume.
type Content struct {
	// Files are sorted by path. No path is a directory of another.
	Files []File
	// Points are directories of the volume at which containers mount other volumes, sorted. They hide files of the same
	// path.
	Points []string
	// Group owns the files and directories; nil for root (core/v1 PodSecurityContext.fsGroup).
	Group *int64
	// Memory: it must not be written to a disk.
	Memory bool
}

const (
	// page is what memory is counted in: a file takes whole ones.
	page = 4096
	// Name is how much memory the kernel takes for each file or directory (an inode and an entry of its cache).
	Name = 1024
)

// Bytes is how much memory the files and their directories take.
func (c *Content) Bytes() (sum int64) {
	before := ""
	for i := range c.Files {
		at, same := c.Files[i].Path, 0
		for same < min(len(at), len(before)) && at[same] == before[same] {
			same++
		}
		// Files of one directory are next to each other.
		names := 1 + strings.Count(at[same:], "/")
		sum += Pages(int64(len(c.Files[i].Data))) + Name*int64(names)
		before = at
	}
	return sum
}

// Pages is how much memory a file of so many bytes takes.
func Pages(bytes int64) int64 { return (bytes + page - 1) / page * page }

// File is one file of a volume.
type File struct {
	// Path is relative, clean, and stays below the volume.
	Path string
	Data []byte
	// Mode are the permission bits.
	Mode uint32
	// User owns it; nil for root.
	User *int64
}

// Source is what content is made from. It is for the volumes of one pod, one after the other: what many of them, or
// many files, have in common is made once.
type Source struct {
	Pod     *v1.Pod
	Objects podobjects.Set
	// Allocatable is used for limits that are not set.
	Allocatable v1.ResourceList

	points map[string][]string
	maps   map[*v1.ConfigMap]map[string][]byte
	fields map[string]fieldData
}

// fieldData is a field of the pod as a file.
type fieldData struct {
	data []byte
	err  error
}

// Holds says whether a volume is of such a kind.
func Holds(v *v1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// Of returns the content of a volume for which Holds is true.
func (s *Source) Of(v *v1.Volume) (*Content, error) {
	var files []File
	var err error
	memory := true
	switch {
	case v.ConfigMap != nil:
		memory = false
		files, err = s.configMap(v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.DefaultMode, v.ConfigMap.Optional)
	case v.Secret != nil:
		files, err = s.secret(v.Secret.SecretName, v.Secret.Items, v.Secret.DefaultMode, v.Secret.Optional)
	case v.DownwardAPI != nil:
		files, err = s.downward(v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		files, err = s.projected(v)
	default:
		panic("volumefiles: volume " + v.Name + " is of another kind")
	}
	if err != nil {
		return nil, err
	}
	c := &Content{Memory: memory, Group: podspec.FSGroup(s.Pod), Points: s.pointsOf(v.Name)}
	if c.Files, err = settle(files); err != nil {
		return nil, err
	}
	if c.Group != nil {
		for i := range c.Files {
			c.Files[i].Mode |= groupReads
		}
	}
	return c, nil
}

func (s *Source) pointsOf(volume string) []string {
	if s.points == nil {
		s.points = points(s.Pod)
	}
	return s.points[volume]
}

const (
	// groupReads is added to the mode of a file that a group owns.
	groupReads = 0o440
	// privateMode is for a private file that a known user or group owns.
	privateMode = 0o600
	// defaultMode is the API's default, for objects that were made without defaults.
	defaultMode = 0o644
	modeBits    = 0o777
)

// projected joins the files of all sources. If two have the same path, the later one counts
// (core/v1 ProjectedVolumeSource).
func (s *Source) projected(v *v1.Volume) ([]File, error) {
	var all []File
	var errs []error
	for i := range v.Projected.Sources {
		files, err := s.projection(v, i)
		all = append(all, files...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, joined(errs)
	}
	return all, nil
}

// joined joins all errors in one line. An object that is not known yet is reported only if nothing
// else is wrong.
func joined(errs []error) error {
	slices.SortStableFunc(errs, func(a, b error) int {
		return cmp.Compare(unknown(a), unknown(b))
	})
	if unknown(errs[0]) == 0 {
		errs = slices.DeleteFunc(errs, func(e error) bool { return unknown(e) == 1 })
	}
	if len(errs) == 1 {
		return errs[0]
	}
	texts := make([]string, len(errs))
	for i, e := range errs {
		texts[i] = e.Error()
	}
	if unknown(errs[0]) == 1 {
		return errs[0]
	}
	return errors.New("[" + strings.Join(texts, ", ") + "]")
}

func unknown(err error) int {
	if podobjects.StateOf(err) == podobjects.Unknown {
		return 1
	}
	return 0
}

func (s *Source) projection(v *v1.Volume, source int) ([]File, error) {
	mode := v.Projected.DefaultMode
	switch p := &v.Projected.Sources[source]; {
	case p.ConfigMap != nil:
		return s.configMap(p.ConfigMap.Name, p.ConfigMap.Items, mode, p.ConfigMap.Optional)
	case p.Secret != nil:
		return s.secret(p.Secret.Name, p.Secret.Items, mode, p.Secret.Optional)
	case p.DownwardAPI != nil:
		return s.downward(p.DownwardAPI.Items, mode)
	case p.ServiceAccountToken != nil:
		return s.token(p.ServiceAccountToken, mode)
	case p.ClusterTrustBundle != nil:
		return s.trustBundle(p.ClusterTrustBundle, mode)
	case p.PodCertificate != nil:
		return s.certificate(p.PodCertificate, podobjects.CertificateRef(s.Pod, v, source), mode)
	default:
		return nil, nil
	}
}

func (s *Source) configMap(name string, items []v1.KeyToPath, mode *int32, optional *bool) ([]File, error) {
	object, err := s.Objects.ConfigMap(s.Pod.Namespace, name)
	if err != nil {
		if podobjects.StateOf(err) != podobjects.Missing || !isTrue(optional) {
			return nil, err
		}
		object = &v1.ConfigMap{}
	}
	return keys(s.dataOf(object), items, mode, isTrue(optional), "configmap references non-existent config key: ")
}

func (s *Source) dataOf(object *v1.ConfigMap) map[string][]byte {
	if data := s.maps[object]; data != nil {
		return data
	}
	data := make(map[string][]byte, len(object.Data)+len(object.BinaryData))
	for k, v := range object.Data { // order-free: into a map
		data[k] = []byte(v)
	}
	for k, v := range object.BinaryData { // order-free: into a map
		data[k] = v
	}
	if s.maps == nil {
		s.maps = map[*v1.ConfigMap]map[string][]byte{}
	}
	s.maps[object] = data
	return data
}

func (s *Source) secret(name string, items []v1.KeyToPath, mode *int32, optional *bool) ([]File, error) {
	object, err := s.Objects.Secret(s.Pod.Namespace, name)
	if err != nil {
		if podobjects.StateOf(err) != podobjects.Missing || !isTrue(optional) {
			return nil, err
		}
		object = &v1.Secret{}
	}
	return keys(object.Data, items, mode, isTrue(optional), "references non-existent secret key: ")
}

// keys returns a file for each key, or for those named by items.
func keys(data map[string][]byte, items []v1.KeyToPath, mode *int32, optional bool, missing string) ([]File, error) {
	var out []File
	if len(items) == 0 {
		for k, v := range data { // order-free: sorted when all are there
			out = append(out, File{Path: k, Data: v, Mode: bits(nil, mode)})
		}
		return out, nil
	}
	for _, i := range items {
		v, ok := data[i.Key]
		switch {
		case ok:
			out = append(out, File{Path: i.Path, Data: v, Mode: bits(i.Mode, mode)})
		case !optional:
			return nil, errors.New(missing + i.Key)
		}
	}
	return out, nil
}

func (s *Source) downward(items []v1.DownwardAPIVolumeFile, mode *int32) ([]File, error) {
	from := podspec.Downward{Pod: s.Pod, Allocatable: s.Allocatable}
	out := make([]File, 0, len(items))
	var errs []error
	for i := range items {
		item := &items[i]
		var f fieldData
		switch {
		case item.FieldRef != nil:
			f = s.field(&from, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			var text string
			text, f.err = from.Resource(nil, item.ResourceFieldRef)
			f.data = []byte(text)
		}
		if f.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", item.Path, f.err))
		}
		out = append(out, File{Path: item.Path, Data: f.data, Mode: bits(item.Mode, mode)})
	}
	if len(errs) > 0 {
		return nil, joined(errs)
	}
	return out, nil
}

// field is a field of the pod. All annotations together may be long, and any number of files may be of them.
func (s *Source) field(from *podspec.Downward, path string) fieldData {
	if f, made := s.fields[path]; made {
		return f
	}
	text, err := from.Field(path)
	if s.fields == nil {
		s.fields = map[string]fieldData{}
	}
	s.fields[path] = fieldData{[]byte(text), err}
	return s.fields[path]
}

// token returns a token's file.
func (s *Source) token(t *v1.ServiceAccountTokenProjection, mode *int32) ([]File, error) {
	token, err := s.Objects.Token(podobjects.TokenRef(s.Pod, t))
	if err != nil {
		return nil, err
	}
	return []File{s.private(t.Path, []byte(token.Value), mode)}, nil
}

// private is a file that only the user that all containers run as can read, or the pod's group. If neither is known,
// everyone can read it (KEP-2451).
func (s *Source) private(name string, data []byte, mode *int32) File {
	f := File{Path: name, Data: data, Mode: bits(nil, mode), User: oneUser(s.Pod)}
	if f.User != nil || podspec.FSGroup(s.Pod) != nil {
		f.Mode = privateMode
	}
	return f
}

// oneUser is the user that all containers run as; nil if they differ or it is not set.
func oneUser(pod *v1.Pod) *int64 {
	var user *int64
	for c := range podspec.Lasting(&pod.Spec) {
		var u *int64
		if s := c.SecurityContext; s != nil && s.RunAsUser != nil {
			u = s.RunAsUser
		} else if s := pod.Spec.SecurityContext; s != nil {
			u = s.RunAsUser
		}
		if u == nil || user != nil && *user != *u {
			return nil
		}
		user = u
	}
	return user
}

func bits(own, common *int32) uint32 {
	switch {
	case own != nil:
		return uint32(*own) & modeBits
	case common != nil:
		return uint32(*common) & modeBits
	default:
		return defaultMode
	}
}

func isTrue(b *bool) bool { return b != nil && *b }

// settle checks, cleans and sorts files. Of several with one path the last one counts.
func settle(files []File) ([]File, error) {
	last := make(map[string]int, len(files))
	for i := range files {
		if err := checkPath(files[i].Path); err != nil {
			return nil, err
		}
		files[i].Path = path.Clean(files[i].Path)
		last[files[i].Path] = i
	}
	out := make([]File, 0, len(last))
	for i := range files {
		if last[files[i].Path] == i {
			out = append(out, files[i])
		}
	}
	names := slices.SortedFunc(maps.Keys(last), slashFirst)
	for i := 1; i < len(names); i++ { // what is below a name comes next
		if dir, name := names[i-1], names[i]; len(name) > len(dir) && name[len(dir)] == '/' && name[:len(dir)] == dir {
			return nil, fmt.Errorf("path %q needs %q as a directory, which is a file of the same volume", name, dir)
		}
	}
	slices.SortFunc(out, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return out, nil
}

// Limits of Linux (limits.h), in bytes.
const (
	maxPath = 4096
	maxName = 255
)

// checkPath rejects paths that lead out of the volume, or collide with the writer's own names,
// which begin with two dots.
func checkPath(p string) error {
	switch {
	case p == "" || path.Clean(p) == ".":
		return fmt.Errorf("invalid path: must not be empty: %q", p)
	case path.IsAbs(p):
		return fmt.Errorf("invalid path: must be relative path: %s", p)
	case len(p) > maxPath:
		return fmt.Errorf("invalid path: must be less than or equal to %d characters", maxPath)
	case strings.HasPrefix(p, ".."):
		return fmt.Errorf("invalid path: must not start with '..': %s", p)
	case strings.ContainsRune(p, 0):
		return fmt.Errorf("invalid path: must not contain a NUL byte: %q", p)
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == ".." {
			return fmt.Errorf("invalid path: must not contain '..': %s", p)
		}
		if len(name) > maxName {
			return fmt.Errorf("invalid path: filenames must be less than or equal to %d characters", maxName)
		}
	}
	if strings.HasPrefix(path.Clean(p), "..") {
		return fmt.Errorf("invalid path: must not start with '..': %s", p)
	}
	return nil
}
