package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// partPod writes into a directory of the server, and ends when file go is there.
const partPod = `
apiVersion: v1
kind: Pod
metadata: {name: part}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: ` + lab.WorkImage + `
    args: [append, /part/seen, run, then, await, /here/go, then, remove, /here/go]
    volumeMounts: [{name: files, mountPath: /part, subPath: dir}, {name: here, mountPath: /here}]
  volumes: [{name: files, nfs: {server: 127.0.0.1, path: /}}, {name: here, emptyDir: {}}]
`

// replaced has the directory of a subPath replaced on the server. What is mounted in the pod is stale then, and the
// container that is restarted gets the new directory.
func (h *host) replaced(ctx context.Context) (err error) {
	defer check.Return(&err)
	dir := filepath.Join(nfsExport, "dir")
	check.OK(errors.Join(os.Mkdir(dir, 0o755), h.agent.Write("part.yaml", partPod)))
	pod := check.Must(h.awaitPod(ctx, "part", "runs", node.Pod.Running))
	check.OK(h.onServer(ctx, "dir/seen", "run\n"))
	check.OK(errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)))
	target := filepath.Join(h.agent.Root(), "pods", pod.UID, "volume-subpaths/files/main/0")
	check.OK(await(ctx, "the old directory is stale", func() error {
		_, err := os.Stat(filepath.Join(target, "never-looked-for"))
		if errors.Is(err, unix.ESTALE) {
			return nil
		}
		return fmt.Errorf("it is not: %v", err)
	}))
	check.OK(h.letWrite(pod))
	if err := h.onServer(ctx, "dir/seen", "run\n"); err != nil {
		return fmt.Errorf("after the directory of a subPath was replaced: %w", err)
	}
	return h.goes(ctx, "part")
}
