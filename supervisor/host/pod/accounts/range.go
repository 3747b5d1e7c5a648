package accounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
)

// subordinate is the user whose subordinate IDs pods get, as with the kubelet
// (subuid(5)), and getsubids is what tells them.
const (
	subordinate = "kubelet"
	getsubids   = "getsubids"
)

// Range finds out which IDs pods with users of their own may have: those that
// the system has set aside for the user "kubelet", or, if it has none, all but
// the first perPod. There must be enough for that many pods.
func Range(ctx context.Context, perPod, pods uint32) (isolation.IDRange, error) {
	r, err := isolation.WholeIDRange(perPod)
	if err != nil {
		return r, err
	}
	if exists(ctx, subordinate) {
		if path, err := exec.LookPath(getsubids); err == nil {
			if r, err = subordinateRange(ctx, path, perPod); err != nil {
				return r, fmt.Errorf("user IDs for pods: %w: correct /etc/subuid and /etc/subgid, or remove the user %s", err,
					subordinate)
			}
		}
	}
	if r.Blocks < pods {
		return r, fmt.Errorf("user IDs for pods: the range is enough for %d pods with %d IDs each, and the node allows %d "+
			"pods: extend the range of the user %s, or lower maxPods",
			r.Blocks, perPod, pods, subordinate)
	}
	return r, nil
}

// exists asks the system's own program: the user may be in a directory such as LDAP, which only the C library asks.
func exists(ctx context.Context, name string) bool {
	if path, err := exec.LookPath("getent"); err == nil {
		return exec.CommandContext(ctx, path, "passwd", name).Run() == nil
	}
	_, err := user.Lookup(name)
	return err == nil
}

func subordinateRange(ctx context.Context, getsubids string, perPod uint32) (isolation.IDRange, error) {
	var out [2][]byte
	for i, args := range [][]string{{subordinate}, {"-g", subordinate}} {
		var err error
		if out[i], err = exec.CommandContext(ctx, getsubids, args...).Output(); err != nil {
			return isolation.IDRange{}, fmt.Errorf("getsubids %s: %w", strings.Join(args, " "), err)
		}
	}
	if !bytes.Equal(out[0], out[1]) {
		return isolation.IDRange{}, fmt.Errorf("the subordinate user IDs of %s, %q, differ from its group IDs, %q",
			subordinate, bytes.TrimSpace(out[0]), bytes.TrimSpace(out[1]))
	}
	first, count, err := parseSubIDs(string(out[0]))
	if err != nil {
		return isolation.IDRange{}, fmt.Errorf("getsubids %s: %q: %w", subordinate, bytes.TrimSpace(out[0]), err)
	}
	return isolation.NewIDRange(first, count, perPod)
}

// parseSubIDs reads the one line that getsubids prints: "0: kubelet 65536 2147483648".
func parseSubIDs(text string) (first, count uint32, err error) {
	fields := strings.Fields(text)
	if len(fields) != 4 || strings.Count(strings.TrimSpace(text), "\n") > 0 {
		return 0, 0, errors.New("want one line with one range")
	}
	var n [2]uint64
	for i := range n {
		if n[i], err = strconv.ParseUint(fields[2+i], 10, 32); err != nil {
			return 0, 0, err
		}
	}
	return uint32(n[0]), uint32(n[1]), nil
}
