package report

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{count(0), "0"}, {count(999), "999"}, {count(1000), "1,000"}, {count(uint64(1234567)), "1,234,567"},
		{some(1, "node"), "1 node"}, {some(0, "node"), "0 nodes"}, {some(1500, "node"), "1,500 nodes"},
		{axisCount(0), "0"}, {axisCount(0.5), "0.5"}, {axisCount(500), "500"}, {axisCount(1500), "1.5k"}, {axisCount(2e7), "20M"}, {axisCount(3e9), "3G"},
		{significant(0.123), "0.12"}, {significant(9.999), "10.0"}, {significant(99.96), "100"}, {significant(1234.5), "1,235"},
		{size(0), "0 B"}, {size(1023), "1,023 B"}, {size(1024), "1.00 KiB"}, {size(412 << 20), "412 MiB"}, {size(3 << 29), "1.50 GiB"}, {size(1 << 63), "8.00 EiB"},
		{span(0), "0"}, {span(999), "999 ns"}, {span(1500), "1.5 µs"}, {span(850 * time.Millisecond), "850 ms"}, {span(1240 * time.Millisecond), "1.24 s"},
		{span(12 * time.Second), "12 s"}, {span(125 * time.Second), "2m 05s"},
		{clock(0), "0s"}, {clock(1500 * time.Millisecond), "1.5s"}, {clock(65 * time.Second), "1m 05s"}, {clock(26*time.Hour + 7*time.Second), "26h 00m 07s"},
		{axisTime(0), "0"}, {axisTime(200 * time.Millisecond), "200ms"}, {axisTime(1500 * time.Millisecond), "1.5s"}, {axisTime(10 * time.Minute), "10m"},
		{axisTime(90 * time.Minute), "1h30m"}, {axisTime(10 * time.Hour), "10h"}, {axisTime(100 * time.Second), "1m40s"},
		{short("node-1", 6), "node-1"}, {short("node-0001", 6), "nod…01"}, {short("ööööööö", 5), "öö…öö"}, {short("a\xffb", 9), "a\uFFFDb"},
		{shell([]string{"troupe", "sim", "--seed", "42"}), "troupe sim --seed 42"},
		{shell([]string{"a b", "", "it's", "$HOME", "x;y"}), `'a b' '' 'it'\''s' '$HOME' 'x;y'`},
	} {
		check.Equal(t, c.got, c.want, "got")
	}
}
