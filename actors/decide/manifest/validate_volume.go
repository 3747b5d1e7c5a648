package manifest

import (
	"path"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

func validateVolumes(pod *v1.Pod) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range pod.Spec.Volumes {
		v, at := &pod.Spec.Volumes[i], field.NewPath("spec", "volumes").Index(i)
		switch {
		case v.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case names[v.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), v.Name))
		default:
			errs = append(errs, invalid(at.Child("name"), v.Name, validation.IsDNS1123Label(v.Name))...)
		}
		names[v.Name] = true
		errs = append(errs, validateVolumeSource(v, at)...)
	}
	return errs
}

func validateVolumeSource(v *v1.Volume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	sources := 0
	for source := range fieldsOf(v.VolumeSource) {
		if !source.IsNil() {
			sources++
		}
	}
	if sources != 1 {
		errs = append(errs, field.Forbidden(at, "a volume has exactly one source"))
	}
	if dir := v.EmptyDir; dir != nil {
		at := at.Child("emptyDir")
		if dir.SizeLimit != nil && dir.SizeLimit.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Child("sizeLimit"), dir.SizeLimit.String(), "must be at least 0"))
		}
	}
	if host := v.HostPath; host != nil {
		at := at.Child("hostPath")
		errs = append(errs, required(at.Child("path"), host.Path)...)
		errs = append(errs, noWayUp(at.Child("path"), host.Path)...)
		errs = append(errs,
			oneOf(at.Child("type"), *host.Type, v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory,
				v1.HostPathFileOrCreate, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)...)
	}
	if v.DownwardAPI != nil {
		at := at.Child("downwardAPI")
		errs = append(errs, validateMode(v.DownwardAPI.DefaultMode, at.Child("defaultMode"))...)
		errs = append(errs, validateDownwardItems(v.DownwardAPI.Items, at.Child("items"), nil)...)
	}
	if v.Projected != nil {
		at := at.Child("projected")
		errs = append(errs, validateMode(v.Projected.DefaultMode, at.Child("defaultMode"))...)
		files := map[string]bool{}
		for i := range v.Projected.Sources {
			if api := v.Projected.Sources[i].DownwardAPI; api != nil {
				errs = append(errs,
					validateDownwardItems(api.Items, at.Child("sources").Index(i).Child("downwardAPI", "items"), files)...)
			}
		}
	}
	if nfs := v.NFS; nfs != nil {
		at := at.Child("nfs")
		errs = append(errs, required(at.Child("server"), nfs.Server)...)
		if !path.IsAbs(nfs.Path) {
			errs = append(errs, field.Invalid(at.Child("path"), nfs.Path, "must be an absolute path"))
		}
	}
	if v.Image != nil {
		errs = append(errs, required(at.Child("image", "reference"), v.Image.Reference)...)
		errs = append(errs,
			oneOf(at.Child("image", "pullPolicy"), v.Image.PullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)...)
	}
	return errs
}

// fieldsOf yields the fields of a struct of pointers.
func fieldsOf(s any) func(func(reflect.Value) bool) {
	return func(yield func(reflect.Value) bool) {
		v := reflect.ValueOf(s)
		for i := range v.NumField() {
			if !yield(v.Field(i)) {
				return
			}
		}
	}
}

func validateMode(mode *int32, at *field.Path) field.ErrorList {
	const allBits = 0o777
	if mode == nil {
		return nil
	}
	return within(at, *mode, 0, allBits)
}

// validateDownwardItems checks files of the downward API. files are those of a projected volume so far, which has each
// path once; nil for a volume of its own, where the last of two counts.
func validateDownwardItems(
	items []v1.DownwardAPIVolumeFile, at *field.Path, files map[string]bool,
) field.ErrorList {
	var errs field.ErrorList
	for i := range items {
		item, at := &items[i], at.Index(i)
		errs = append(errs, required(at.Child("path"), item.Path)...)
		errs = append(errs, inside(at.Child("path"), item.Path)...)
		if strings.HasPrefix(item.Path, "..") {
			errs = append(errs, field.Invalid(at.Child("path"), item.Path, "must not begin with '..'"))
		}
		if files[item.Path] {
			errs = append(errs, field.Duplicate(at.Child("path"), item.Path))
		} else if files != nil {
			files[item.Path] = true
		}
		errs = append(errs, validateMode(item.Mode, at.Child("mode"))...)
		errs = append(errs,
			exactlyOne(at, count(item.FieldRef != nil, item.ResourceFieldRef != nil), "fieldRef and resourceFieldRef")...)
		if item.FieldRef != nil {
			errs = append(errs, validateFieldRef(item.FieldRef, at.Child("fieldRef"), volumeFields)...)
		}
		if item.ResourceFieldRef != nil {
			errs = append(errs, validateResourceRef(item.ResourceFieldRef, at.Child("resourceFieldRef"), true)...)
		}
	}
	return errs
}

func validateMounts(pod *v1.Pod, c *v1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	paths := map[string]bool{}
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	for i := range c.VolumeMounts {
		m, at := &c.VolumeMounts[i], at.Child("volumeMounts").Index(i)
		if m.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else if podspec.Volume(&pod.Spec, m.Name) == nil {
			errs = append(errs, field.NotFound(at.Child("name"), m.Name))
		}
		switch {
		case m.MountPath == "":
			errs = append(errs, field.Required(at.Child("mountPath"), ""))
		case paths[m.MountPath]:
			errs = append(errs, field.Duplicate(at.Child("mountPath"), m.MountPath))
		}
		paths[m.MountPath] = true
		errs = append(errs, validateMountOptions(m, at, privileged)...)
	}
	for i, d := range c.VolumeDevices {
		at := at.Child("volumeDevices").Index(i)
		// Raw block devices come from PersistentVolumeClaims only.
		errs = append(errs,
			field.Forbidden(at, "a static pod has no PersistentVolumeClaim to take device "+d.DevicePath+" from"))
	}
	return errs
}

func validateMountOptions(m *v1.VolumeMount, at *field.Path, privileged bool) field.ErrorList {
	var errs field.ErrorList
	if m.SubPath != "" && m.SubPathExpr != "" {
		errs = append(errs, field.Forbidden(at.Child("subPathExpr"), "cannot be given together with subPath"))
	}
	errs = append(errs, inside(at.Child("subPath"), m.SubPath)...)
	errs = append(errs, inside(at.Child("subPathExpr"), m.SubPathExpr)...)
	if p := m.MountPropagation; p != nil {
		errs = append(errs,
			oneOf(at.Child("mountPropagation"), *p, v1.MountPropagationNone, v1.MountPropagationHostToContainer,
				v1.MountPropagationBidirectional)...)
		if *p == v1.MountPropagationBidirectional && !privileged {
			errs = append(errs,
				field.Forbidden(at.Child("mountPropagation"), "Bidirectional needs securityContext.privileged: true"))
		}
	}
	if r := m.RecursiveReadOnly; r != nil {
		at := at.Child("recursiveReadOnly")
		errs = append(errs,
			oneOf(at, *r, v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled)...)
		if *r != v1.RecursiveReadOnlyDisabled {
			if !m.ReadOnly {
				errs = append(errs, field.Forbidden(at, "needs readOnly: true"))
			}
			if m.MountPropagation != nil && *m.MountPropagation != v1.MountPropagationNone {
				errs = append(errs, field.Forbidden(at, "needs mountPropagation None"))
			}
		}
	}
	return errs
}
