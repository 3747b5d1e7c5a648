package checkpoints

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/troupe-dev/troupe/actors/decide/devicestate"
)

// DevicesIn is the path of the checkpoint of a kubelet's device manager in the directory of its device plugins.
func DevicesIn(dir string) string { return filepath.Join(dir, devicestate.Name) }

// Devices reads what a kubelet left of its device plugins. The files stay as they are, whatever they contain: a kubelet
// that comes back needs them. The state is never nil; if the checkpoint is damaged or can't be read, the error says
// why. A directory in which no kubelet ever was has none, and that is no error: the Node object may be from
// before its disk was replaced.
func Devices(dir string) (*devicestate.State, error) {
	path := DevicesIn(dir)
	data, err := read(path)
	if err != nil {
		return devicestate.Unknown("unreadable"), fmt.Errorf("%s: %w", path, err)
	}
	if data == nil {
		if used, err := used(dir); err != nil || used {
			return &devicestate.State{}, err // a kubelet writes it when the first plugin registers
		}
		return devicestate.Unknown("none"), nil
	}
	s, err := devicestate.Parse(data)
	if err != nil {
		return devicestate.Unknown(fmt.Sprintf("damaged:%08x", crc32.ChecksumIEEE(data))), fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// used says whether a kubelet has ever run with this directory: it leaves its socket there, and those of plugins.
func used(dir string) (bool, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), ".") { // an unfinished write
			return true, nil
		}
	}
	return false, err
}
