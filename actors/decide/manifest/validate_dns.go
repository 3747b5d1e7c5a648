package manifest

import (
	"fmt"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of a pod's resolv.conf (API field dnsConfig).
const (
	maxNameservers     = 3
	maxSearchPaths     = 32
	maxSearchListChars = 2048
)

func validateDNSConfig(spec *v1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	config := spec.DNSConfig
	if spec.DNSPolicy == v1.DNSNone && (config == nil || len(config.Nameservers) == 0) {
		errs = append(errs, field.Required(at.Child("nameservers"), "with dnsPolicy None, the pod has no other name servers"))
	}
	if config == nil {
		return errs
	}
	if len(config.Nameservers) > maxNameservers {
		errs = append(errs, field.TooMany(at.Child("nameservers"), len(config.Nameservers), maxNameservers))
	}
	for i, server := range config.Nameservers {
		errs = append(errs, validIP(at.Child("nameservers").Index(i), server)...)
	}
	if len(config.Searches) > maxSearchPaths {
		errs = append(errs, field.TooMany(at.Child("searches"), len(config.Searches), maxSearchPaths))
	}
	if n := len(strings.Join(config.Searches, " ")); n > maxSearchListChars {
		errs = append(errs,
			field.Invalid(at.Child("searches"), n,
				fmt.Sprintf("total number of characters: must be at most %d", maxSearchListChars)))
	}
	for i, search := range config.Searches {
		if search == "." {
			continue
		}
		// Underscores are in use (_http._tcp…) though no host name has them.
		plain := strings.ReplaceAll(strings.TrimSuffix(search, "."), "_", "a")
		errs = append(errs, invalid(at.Child("searches").Index(i), search, validation.IsDNS1123Subdomain(plain))...)
	}
	for i, option := range config.Options {
		errs = append(errs, required(at.Child("options").Index(i).Child("name"), option.Name)...)
	}
	return errs
}

func validateHostAliases(aliases []v1.HostAlias, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, alias := range aliases {
		errs = append(errs, validIP(at.Index(i).Child("ip"), alias.IP)...)
		for j, name := range alias.Hostnames {
			errs = append(errs, invalid(at.Index(i).Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name))...)
		}
	}
	return errs
}

func validIP(at *field.Path, value string) field.ErrorList {
	if addr, err := netip.ParseAddr(value); err != nil || addr.Zone() != "" {
		return field.ErrorList{field.Invalid(at, value, "must be an IP address, like 10.0.0.1 or fd00::1")}
	}
	return nil
}
