package differ

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// volumeFeatures are volumes and where they are mounted.
var volumeFeatures = []feature{
	{"empty-dir", 25, func(d *draft) {
		d.mount("empty", v1.VolumeSource{EmptyDir: one(d, &v1.EmptyDirVolumeSource{}, &v1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("10Mi"))})})
	}},
	{"memory-dir", 12, func(d *draft) {
		source := &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}
		if d.flip() {
			source.SizeLimit = new(resource.MustParse("3Mi"))
		}
		d.mount("memory", v1.VolumeSource{EmptyDir: source})
	}},
	{"config-map", 25, func(d *draft) {
		source := &v1.ConfigMapVolumeSource{LocalObjectReference: named("cm"), DefaultMode: d.mode()}
		if d.flip() {
			source.Items = []v1.KeyToPath{{Key: "file.txt", Path: "deep/er/file"}, {Key: "plain", Path: "plain", Mode: d.mode()}}
		}
		d.mount("config", v1.VolumeSource{ConfigMap: source})
	}},
	{"secret", 20, func(d *draft) {
		source := &v1.SecretVolumeSource{SecretName: "sec", DefaultMode: d.mode()}
		if d.flip() {
			source.Items = []v1.KeyToPath{{Key: "user", Path: "who", Mode: d.mode()}}
		}
		d.mount("secret", v1.VolumeSource{Secret: source})
	}},
	{"optional", 6, func(d *draft) {
		d.mount("optional", one(d,
			v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("nowhere"), Optional: new(true)}},
			v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec", Items: []v1.KeyToPath{{Key: "none", Path: "x"}}, Optional: new(true)}}))
	}},
	{"missing", 3, func(d *draft) {
		d.mount("missing", one(d,
			v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("nowhere")}},
			v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("cm"), Items: []v1.KeyToPath{{Key: "none", Path: "x"}}}},
			v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "nowhere"}},
			v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: hostPlace + "/nowhere", Type: new(v1.HostPathDirectory)}},
			v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: hostPlace + "/file", Type: new(v1.HostPathDirectory)}}))
	}},
	{"downward", 15, func(d *draft) {
		d.mount("downward", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{DefaultMode: d.mode(), Items: downwardFiles()}})
	}},
	{"projected", 15, func(d *draft) {
		source := &v1.ProjectedVolumeSource{DefaultMode: d.mode(), Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named("cm"), Items: []v1.KeyToPath{{Key: "plain", Path: "c/plain"}}}},
			{Secret: &v1.SecretProjection{LocalObjectReference: named("sec"), Items: []v1.KeyToPath{{Key: "user", Path: "c/user", Mode: d.mode()}}}},
			{DownwardAPI: &v1.DownwardAPIProjection{Items: downwardFiles()}},
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", Audience: one(d, "", "vault"), ExpirationSeconds: new(int64(900))}},
		}}
		source.Sources = source.Sources[:1+d.IntN(4)]
		d.mount("projected", v1.VolumeSource{Projected: source})
	}},
	{"host-path", 15, func(d *draft) {
		kind := func(path string, t v1.HostPathType) v1.VolumeSource {
			return v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: hostPlace + path, Type: &t}}
		}
		d.mount("host", one(d, kind("/dir", v1.HostPathDirectory), kind("/dir", v1.HostPathUnset), kind("/file", v1.HostPathFile),
			kind("/made/dir", v1.HostPathDirectoryOrCreate), kind("/made-file", v1.HostPathFileOrCreate), kind("/link", v1.HostPathUnset)))
	}},
	{"claim", 8, func(d *draft) {
		d.mount("claimed", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: one(d, "host", "local", "group"), ReadOnly: d.IntN(4) == 0}})
	}},
	{"image-volume", 4, func(d *draft) {
		d.mount("image", v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: one(d, lab.WorkImage, lab.WorkImage, missingImage)}})
	}},
	{"twice", 10, func(d *draft) {
		if len(d.spec.Volumes) > 0 {
			d.place(one(d, d.spec.Volumes...).Name, d.pick(), "/twice")
		}
	}},
	{"nested", 8, func(d *draft) {
		d.mount("outer", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("cm")}})
		d.volume("inner", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
		d.every(func(c *v1.Container) {
			for _, m := range c.VolumeMounts {
				if m.Name == "outer" {
					d.place("inner", c, "/v/outer/inner")
					return
				}
			}
		})
	}},
	{"sub-path", 15, func(d *draft) {
		name := d.volume("parts", one(d,
			v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
			v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("cm")}},
			v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: hostPlace + "/dir"}},
			v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}}}}))
		m := d.place(name, d.pick(), "/part")
		m.SubPath = one(d, "new/dir", "plain", "file.txt", "token", "in/side")
	}},
	{"sub-path-expr", 6, func(d *draft) {
		name := d.volume("expr", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
		c := d.pick()
		c.Env = append(c.Env, field("MY_NAME", "metadata.name"))
		d.place(name, c, "/expr").SubPathExpr = one(d, "logs/$(MY_NAME)", "$(MY_NAME)", "$(MISSING)/x")
	}},
	{"propagation", 6, func(d *draft) {
		name := d.volume("spread", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: hostPlace + "/dir"}})
		d.place(name, d.pick(), "/spread").MountPropagation = new(one(d, v1.MountPropagationHostToContainer, v1.MountPropagationNone))
	}},
	{"recursive-read-only", 6, func(d *draft) {
		name := d.volume("fixed", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
		m := d.place(name, d.pick(), "/fixed")
		m.ReadOnly, m.RecursiveReadOnly = true, new(one(d, v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyDisabled))
	}},
	{"hosts-mount", 3, func(d *draft) {
		name := d.volume("etc", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
		m := d.place(name, d.pick(), one(d, "/etc/hosts", "/dev/shm", "relative/path"))
		if m.MountPath == "/etc/hosts" {
			m.SubPath = "hosts"
		}
	}},
}

func downwardFiles() []v1.DownwardAPIVolumeFile {
	at := func(path, from string) v1.DownwardAPIVolumeFile {
		return v1.DownwardAPIVolumeFile{Path: path, FieldRef: &v1.ObjectFieldSelector{FieldPath: from}}
	}
	return []v1.DownwardAPIVolumeFile{
		at("labels", "metadata.labels"), at("in/annotations", "metadata.annotations"), at("name", "metadata.name"), at("uid", "metadata.uid"),
		{Path: "cpu", ResourceFieldRef: selector("limits.cpu", "main", "1m"), Mode: new(int32(0o400))},
		{Path: "memory", ResourceFieldRef: selector("requests.memory", "main", "1")},
	}
}

// mode is a file's mode, or none.
func (d *draft) mode() *int32 {
	return one(d, nil, nil, new(int32(0o400)), new(int32(0o640)), new(int32(0o755)))
}

// volume adds a volume.
func (d *draft) volume(name string, source v1.VolumeSource) string {
	d.spec.Volumes = append(d.spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	return name
}

// mount adds a volume, and mounts it in one container, or in all.
func (d *draft) mount(name string, source v1.VolumeSource) {
	d.volume(name, source)
	readOnly := d.IntN(4) == 0
	if d.IntN(3) == 0 {
		d.every(func(c *v1.Container) { d.place(name, c, "/v/"+name).ReadOnly = readOnly })
		return
	}
	d.place(name, d.pick(), "/v/"+name).ReadOnly = readOnly
}

func (d *draft) place(name string, c *v1.Container, path string) *v1.VolumeMount {
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: path})
	return &c.VolumeMounts[len(c.VolumeMounts)-1]
}
