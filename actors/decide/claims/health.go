package claims

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Report is what a driver says of one device (DRAResourceHealth, KEP-4680).
type Report struct {
	Pool, Device string
	Health       v1.ResourceHealthStatus
	Message      string
	// For is how long that counts, at most until the next report.
	For time.Duration
}

// MaxReports is of how many devices of a driver reports are kept.
const MaxReports = 10_000

// Reports are the newest of a driver, by device: at most MaxReports.
type Reports map[[2]string]Reported

// Reported is a report that counts until some time.
type Reported struct {
	Report
	Until time.Time
}

// Add notes reports. Devices that are not among them keep what was said of them, until its time is over. Those
// for which there is no room are not noted.
func (r Reports) Add(now time.Time, all []Report) {
	for at, old := range r { // order-free: each on its own
		if !old.Until.After(now) {
			delete(r, at)
		}
	}
	for _, one := range all {
		at := [2]string{one.Pool, one.Device}
		if _, known := r[at]; known || len(r) < MaxReports {
			r[at] = Reported{one, now.Add(one.For)}
		}
	}
}

// Of is what is known of a device now.
func (r Reports) Of(now time.Time, pool, device string) Report {
	one, known := r[[2]string{pool, device}]
	if !known || !one.Until.After(now) {
		return Report{Pool: pool, Device: device, Health: v1.ResourceHealthStatusUnknown}
	}
	return one.Report
}

// Next is when the first of them does not count any more; zero if there is none.
func (r Reports) Next(now time.Time) (next time.Time) {
	for _, one := range r { // order-free: the earliest
		if one.Until.After(now) && (next.IsZero() || one.Until.Before(next)) {
			next = one.Until
		}
	}
	return next
}

// Health is how the devices are that containers have by claims: an entry for each claim, or request of one, that a
// container names. A device is named by its first CDI name, or else DRIVER/POOL/DEVICE. An entry with a device of which
// report has no Health is left out: that may be known soon.
func Health(pod *v1.Pod, of Of, report func(driver, pool, device string) Report) devicestate.Health {
	out, names := devicestate.Health{}, Names(pod)
	for c := range podspec.All(&pod.Spec) {
		for _, use := range c.Resources.Claims {
			s := v1.ResourceStatus{Name: v1.ResourceName("claim:" + use.Name)}
			if use.Request != "" {
				s.Name += v1.ResourceName("/" + use.Request)
			}
			name := names[use.Name]
			if name == "" {
				continue
			}
			for _, part := range add(nil, of(name), use.Request) {
				for _, d := range part.Devices {
					s.Resources = append(s.Resources, healthOf(&d, report))
				}
			}
			s.Resources = firstOfEach(s.Resources)
			soon := slices.ContainsFunc(s.Resources, func(h v1.ResourceHealth) bool { return h.Health == "" })
			if len(s.Resources) > 0 && !soon {
				out[c.Name] = append(out[c.Name], s)
			}
		}
	}
	return out
}

func healthOf(d *DriverDevice, report func(driver, pool, device string) Report) v1.ResourceHealth {
	r := report(d.Driver, d.Pool, d.Name)
	h := v1.ResourceHealth{ResourceID: v1.ResourceID(d.Driver + "/" + d.Pool + "/" + d.Name), Health: r.Health}
	if len(d.CDI) > 0 {
		h.ResourceID = v1.ResourceID(d.CDI[0])
	}
	if r.Message != "" {
		h.Message = &r.Message
	}
	return h
}

// firstOfEach drops later devices with the name of an earlier one: names are unique.
func firstOfEach(all []v1.ResourceHealth) (out []v1.ResourceHealth) {
	has := make(map[v1.ResourceID]bool, len(all))
	for i := range all {
		if id := all[i].ResourceID; !has[id] {
			has[id] = true
			out = append(out, all[i])
		}
	}
	slices.SortFunc(out, func(a, b v1.ResourceHealth) int { return cmp.Compare(a.ResourceID, b.ResourceID) })
	return out
}
