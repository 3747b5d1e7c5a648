package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// PolicyPath is the SELinux policy to load, in the guest; without it SELinux is off.
const PolicyPath = "/opt/policy"

// FileContext is the label of files of containers in the policy, without a level.
const FileContext = "system_u:object_r:container_file_t"

// policyVersion is one that kernels and compilers of the last ten years know.
const policyVersion = "31"

// selinuxRoot is where `go tool task selinux` has unpacked the compiler of policies.
func selinuxRoot(repository string) (string, error) {
	root := filepath.Join(repository, ".run/selinux")
	if _, err := findBelow(root, "/bin/secilc"); err != nil {
		return "", errors.New("no secilc in .run/selinux (run: go tool task selinux)")
	}
	return root, nil
}

// hasSELinux is what a test with SELinux needs besides.
func hasSELinux(repository string) lab.Requirement {
	return lab.NewRequirement("secilc", func() error { _, err := selinuxRoot(repository); return err })
}

// sids are the initial ones of the kernel, in its order (security/selinux/include/initial_sid_to_string.h).
const sids = "kernel security unlabeled fs file file_labels init any_socket port netif netmsg node igmp_packet icmp_socket " +
	"tcp_socket sysctl_modprobe sysctl sysctl_fs sysctl_kernel sysctl_net sysctl_net_unix sysctl_vm sysctl_dev kmod policy " +
	"scmp_packet devnull"

// policy is the smallest that has containers: all is allowed, but that a container reads or changes files whose
// categories it does not have. What it does not name is allowed.
func policy() string {
	const categories = 1024 // of which go-selinux draws
	var all strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&all, format+"\n", args...) }
	write(`(mls true)
(handleunknown allow)
(class process (transition dyntransition))
(class file (read write append open getattr execute))
(class dir (search read write open getattr add_name remove_name))
(classorder (process file dir))
(sensitivity s0)
(sensitivityorder (s0))`)
	var names []string
	for i := range categories {
		names = append(names, fmt.Sprintf("c%d", i))
		write("(category c%d)", i)
	}
	write("(categoryorder (%s))", strings.Join(names, " "))
	write(`(sensitivitycategory s0 (range c0 c1023))
(user system_u)
(role system_r)
(role object_r)
(type kernel_t)
(type file_t)
(type container_t)
(type container_file_t)
(roletype system_r kernel_t)
(roletype system_r container_t)
(roletype object_r file_t)
(roletype object_r container_file_t)
(userrole system_u system_r)
(userrole system_u object_r)
(userlevel system_u (s0))
(userrange system_u ((s0) (s0 (range c0 c1023))))
(typeattribute every)
(typeattributeset every (all))
(allow every every (process (all)))
(allow every every (file (all)))
(allow every every (dir (all)))
(mlsconstrain (file (read write append)) (or (neq t1 container_t) (dom h1 h2)))
(mlsconstrain (dir (read add_name remove_name)) (or (neq t1 container_t) (dom h1 h2)))
(context of_files (system_u object_r file_t ((s0) (s0))))
(context of_kernel (system_u system_r kernel_t ((s0) (s0 (range c0 c1023)))))
(fsuse trans tmpfs of_files)
(fsuse trans devpts of_files)
(fsuse task pipefs of_files)
(fsuse task sockfs of_files)
(fsuse xattr ext4 of_files)
(fsuse xattr overlay of_files)`)
	for fs := range strings.FieldsSeq("proc sysfs devtmpfs cgroup2 rootfs ramfs mqueue nsfs bpf selinuxfs") {
		write(`(genfscon %s "/" of_files)`, fs)
	}
	for sid := range strings.FieldsSeq(sids) {
		context := "of_files"
		if sid == "kernel" || sid == "init" {
			context = "of_kernel"
		}
		write("(sid %s)\n(sidcontext %s %s)", sid, sid, context)
	}
	write("(sidorder (%s))", sids)
	return all.String()
}

// addSELinux adds the policy, compiled in dir, and what programs read of it.
func (a *archive) addSELinux(ctx context.Context, root, dir string) error {
	compiler, err := findBelow(root, "/bin/secilc")
	if err != nil {
		return err
	}
	text, binary := filepath.Join(dir, "policy.cil"), filepath.Join(dir, "policy")
	if err := os.WriteFile(text, []byte(policy()), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, compiler, "-M", "true", "-c", policyVersion, "-o", binary, "-f", os.DevNull, text)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(root, "lib/x86_64-linux-gnu")+":"+
		filepath.Join(root, "usr/lib/x86_64-linux-gnu"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the policy: %w: %s", err, out)
	}
	a.file(PolicyPath, binary, 0o644)
	a.content("/etc/selinux/config", []byte("SELINUX=enforcing\nSELINUXTYPE=small\n"), 0o644)
	a.content("/etc/selinux/small/contexts/lxc_contexts", []byte(`process = "system_u:system_r:container_t:s0"`+"\n"+
		`file = "`+FileContext+`:s0"`+"\n"), 0o644)
	return nil
}
