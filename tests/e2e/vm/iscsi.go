package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// iscsiRoot is where `go tool task iscsi` has unpacked open-iscsi and tgt.
func iscsiRoot(repository string) (string, error) {
	root := filepath.Join(repository, ".run/iscsi")
	if _, err := findBelow(root, "/sbin/iscsiadm"); err != nil {
		return "", errors.New("no open-iscsi in .run/iscsi (run: go tool task iscsi)")
	}
	return root, nil
}

// hasISCSI is what a test with iSCSI needs besides.
func hasISCSI(repository string) lab.Requirement {
	return lab.NewRequirement("open-iscsi and tgt", func() error { _, err := iscsiRoot(repository); return err })
}

var (
	iscsiModules = []string{"iscsi_tcp", "sd_mod"}
	// iscsiPrograms are of the packages, diskPrograms of the machine that runs the tests.
	iscsiPrograms = []string{"/sbin/iscsid", "/sbin/iscsiadm", "/usr/sbin/tgtd", "/usr/sbin/tgtadm"}
	diskPrograms  = []string{"blkid", "fsck", "fsck.ext4", "mkfs.ext4"}
)

// slow are settings of open-iscsi that make a target that does not answer a failure after minutes, and what the guest
// has instead, in seconds.
var slow = map[string]string{
	"node.session.timeo.replacement_timeout": "5", "node.conn[0].timeo.login_timeout": "5",
	"node.conn[0].timeo.logout_timeout": "5", "node.conn[0].timeo.noop_out_interval": "2",
	"node.conn[0].timeo.noop_out_timeout": "4",
}

// addISCSI adds an initiator and a target, both of the packages in root, and what makes file systems.
func (a *archive) addISCSI(root string) error {
	const libraries = "lib/x86_64-linux-gnu"
	kept := a.libraries
	a.libraries = append([]string{filepath.Join(root, "usr", libraries), filepath.Join(root, libraries)}, kept...)
	defer func() { a.libraries = kept }()
	for _, program := range iscsiPrograms {
		file, err := findBelow(root, program)
		if err == nil {
			err = a.addProgram(program, file)
		}
		if err != nil {
			return fmt.Errorf("add %s: %w", program, err)
		}
	}
	for _, program := range diskPrograms {
		file, err := lab.LookPath(program)
		if err == nil {
			err = a.addProgram("/sbin/"+program, file)
		}
		if err != nil {
			return fmt.Errorf("add %s: %w", program, err)
		}
	}
	a.file("/etc/mke2fs.conf", "/etc/mke2fs.conf", 0o644)
	settings, err := os.ReadFile(filepath.Join(root, "etc/iscsi/iscsid.conf"))
	if err != nil {
		return err
	}
	settings = regexp.MustCompile(`(?m)^iscsid.startup.*$`).ReplaceAll(settings, nil)
	for key, value := range slow {
		line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + ` = .*$`)
		settings = line.ReplaceAll(settings, []byte(key+" = "+value))
	}
	a.content("/etc/iscsi/iscsid.conf", settings, 0o600)
	a.content("/etc/iscsi/initiatorname.iscsi", []byte("InitiatorName=iqn.2003-01.org.example:guest\n"), 0o600)
	a.link("/var/run", "/run")
	return nil
}
