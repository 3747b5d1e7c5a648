package devicestate

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
)

// checksum is the kubelet's: FNV-1a of 32 bits over the content as text. The text names the kubelet's own Go types,
// has map keys in order, and does not quote strings. So it is a part of the format.
func (c *content) checksum() uint64 {
	h := fnv.New32a()
	_, _ = h.Write(c.appendText(nil)) // it never fails
	return uint64(h.Sum32())
}

func (c *content) appendText(b []byte) []byte {
	b = append(b, "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)"...)
	b = appendList(b, c.PodDeviceEntries, func(b []byte, e entry) []byte { return e.appendText(b) })
	b = append(b, " RegisteredDevices:(map[string][]string)"...)
	return append(appendMap(b, c.RegisteredDevices), '}')
}

func (e *entry) appendText(b []byte) []byte {
	b = fmt.Appendf(b, "{PodUID:(string)%s ContainerName:(string)%s ResourceName:(string)%s DeviceIDs:",
		e.PodUID, e.ContainerName, e.ResourceName)
	if e.DeviceIDs.isList {
		b = appendStrings(append(b, "([]string)"...), e.DeviceIDs.list)
	} else {
		b = appendMap(append(b, "(checkpoint.DevicesPerNUMA)"...), e.DeviceIDs.byNUMA)
	}
	b = append(b, " AllocResp:([]uint8)"...)
	return append(appendList(b, e.AllocResp, func(b []byte, v byte) []byte { return fmt.Append(b, v) }), '}')
}

const null = "<nil>"

func appendList[T any](b []byte, list []T, one func([]byte, T) []byte) []byte {
	if list == nil {
		return append(b, null...)
	}
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ' ')
		}
		b = one(b, v)
	}
	return append(b, ']')
}

func appendStrings(b []byte, list []string) []byte {
	return appendList(b, list, func(b []byte, s string) []byte { return append(b, s...) })
}

func appendMap[K string | int64](b []byte, m map[K][]string) []byte {
	if m == nil {
		return append(b, null...)
	}
	b = append(b, "map["...)
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ' ')
		}
		b = appendStrings(fmt.Appendf(b, "%v:", k), m[k])
	}
	return append(b, ']')
}
