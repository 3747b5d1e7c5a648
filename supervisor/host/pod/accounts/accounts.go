// Package accounts gives user IDs of this machine to pods with their own user namespace.
package accounts

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
	"github.com/troupe-dev/troupe/supervisor/host/disk/regularfile"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// The name is that of the kubelet.
const (
	usersName    = "userns"
	usersMode    = 0o600
	maxUsersFile = 4096
)

// Accounts gives user IDs to pods. What is given is in the pods' directories, and
// nothing else remembers it.
type Accounts struct {
	pods *agentdir.Dir
	mu   sync.Mutex // held while a pod is given user IDs
}

// New gives IDs to the pods whose directories are in pods.
func New(pods *agentdir.Dir) *Accounts { return &Accounts{pods: pods} }

// UserNamespace gives the IDs that a pod with hostUsers: false is mapped to: the
// same each time, over a restart of the agent too, and those of no other pod,
// until RemovePod. It is for any goroutine but an actor's: it reads and writes.
func (a *Accounts) UserNamespace(pod *v1.Pod, r isolation.IDRange) (isolation.IDMapping, error) {
	dir, err := agentdir.PodDir(string(pod.UID))
	if err != nil {
		return isolation.IDMapping{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch m, err := a.readUsers(dir); {
	case err == nil && (m.Length != r.PerPod || !r.Has(m.First)):
		return m, fmt.Errorf("the pod uses user IDs %d to %d, which are outside the current range of this node: delete "+
			"the pod, or restore the previous userNamespaces",
			m.First, uint64(m.First)+uint64(m.Length)-1)
	case !errors.Is(err, fs.ErrNotExist):
		return m, err
	}
	taken, err := a.takenUsers()
	if err != nil {
		return isolation.IDMapping{}, err
	}
	first, err := r.Pick(taken)
	if err != nil {
		return isolation.IDMapping{}, err
	}
	m := isolation.IDMapping{First: first, Length: r.PerPod}
	return m, a.writeUsers(dir, isolation.EncodeIDMapping(m))
}

// takenUsers are the first IDs of all pods' mappings. One that can't be read may
// be anybody's: nothing is given until it can.
func (a *Accounts) takenUsers() ([]uint32, error) {
	names, err := a.pods.Names(".", nil)
	if err != nil {
		return nil, err
	}
	var taken []uint32
	for _, name := range names {
		m, err := a.readUsers(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) { // no pod, or a stray file
			continue
		}
		if err != nil {
			return nil, err
		}
		taken = append(taken, m.First)
	}
	return taken, nil
}

func (a *Accounts) readUsers(dir string) (isolation.IDMapping, error) {
	name := filepath.Join(dir, usersName)
	data, err := regularfile.In(a.pods.Root, name, maxUsersFile)
	if err != nil {
		return isolation.IDMapping{}, err
	}
	if durable.Lost(data) {
		return isolation.IDMapping{}, fs.ErrNotExist // no process of the pod can have had IDs
	}
	m, err := isolation.DecodeIDMapping(data)
	if err != nil {
		return m, hostcall.Failf(port.InvalidConfig, "user ID mapping in %s: %v", filepath.Join(a.pods.Path, name), err)
	}
	return m, nil
}

// writeUsers has the IDs on the disk before any process has them.
func (a *Accounts) writeUsers(dir string, data []byte) error {
	if err := a.pods.Root.MkdirAll(dir, agentdir.Mode); err != nil {
		return err
	}
	return durable.Write(a.pods.Root, filepath.Join(dir, usersName), data, usersMode, durable.Kept)
}
