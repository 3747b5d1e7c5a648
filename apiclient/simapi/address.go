package simapi

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// alignPodIPs makes podIP and podIPs equal. If they differ, podIP wins, for agents without
// podIPs.
func alignPodIPs(s *v1.PodStatus) {
	switch {
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []v1.PodIP{{IP: s.PodIP}}
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	}
}

// badAddresses validates the addresses of a status. A patch from an old status can make them
// wrong: the lists are merged, and the old address stays beside the new one.
func badAddresses(errs field.ErrorList, s *v1.PodStatus) field.ErrorList {
	status := field.NewPath("status")
	errs = oneOfAFamily(errs, len(s.PodIPs), func(i int) string { return s.PodIPs[i].IP }, status.Child("podIPs"))
	if len(s.HostIPs) > 0 && s.HostIP != s.HostIPs[0].IP {
		errs = append(errs,
			field.Invalid(status.Child("hostIPs").Index(0).Child("ip"), s.HostIPs[0].IP, "must be equal to `hostIP`"))
	}
	return oneOfAFamily(errs, len(s.HostIPs), func(i int) string { return s.HostIPs[i].IP }, status.Child("hostIPs"))
}

// oneOfAFamily rejects invalid addresses, and a second one of a family.
func oneOfAFamily(errs field.ErrorList, n int, ip func(int) string, path *field.Path) field.ErrorList {
	var families [2]int
	for i := range n {
		a, err := netip.ParseAddr(ip(i))
		if err != nil {
			errs = append(errs,
				field.Invalid(path.Index(i), ip(i), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
			continue
		}
		family := 0
		if a.Is6() {
			family = 1
		}
		if families[family]++; families[family] == 2 {
			errs = append(errs, field.Invalid(path, ip(i), "may specify no more than one IP for each IP family"))
		}
	}
	return errs
}
