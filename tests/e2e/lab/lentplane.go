package lab

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// renewTimeout is how long who wants the shared control plane waits for it: it is made as new after the last one who
// had it.
const renewTimeout = time.Minute

// TakeControlPlane is the control plane that `go tool task lab` shares, if it is there and has this configuration, and
// else [StartControlPlane]. It is as new: what other tests have left in it is gone. Nobody else has it until Stop,
// which leaves it running. Who stops or restarts components needs one of its own.
func TakeControlPlane(ctx context.Context, config ControlPlaneConfig) (*ControlPlane, error) {
	c, err := lentControlPlane(ctx, config)
	if err == nil {
		config.say("control plane: that of go tool task lab, at %s", c.Address())
		return c, nil
	}
	if !errors.Is(err, errNoPlane) {
		config.say("control plane: one of its own, as that of go tool task lab cannot be had: %v", err)
	}
	return StartControlPlane(ctx, config)
}

func (c *ControlPlaneConfig) say(format string, args ...any) {
	if c.Log != nil {
		fmt.Fprintf(c.Log, format+"\n", args...)
	}
}

func lentControlPlane(ctx context.Context, config ControlPlaneConfig) (_ *ControlPlane, err error) {
	defer check.Return(&err)
	if config.Repository == "" {
		config.Repository = check.Must(Repository())
	}
	fingerprint := check.Must(config.fingerprint())
	file := check.Must(readPlaneFile(planeFileIn(config.Repository), fingerprint))
	conn := check.Must(file.take(ctx))
	c, err := file.controlPlane(config, conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// take asks for the control plane. This process has it until it closes the connection, or ends.
func (f planeFile) take(ctx context.Context) (_ *loan, err error) {
	defer check.Return(&err)
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	conn := check.Must((&net.Dialer{}).DialContext(ctx, "tcp", f.Lender))
	defer func() {
		check.Ended(recover(), &err)
		if err != nil {
			err = errors.Join(err, conn.Close())
		}
	}()
	until, _ := ctx.Deadline()
	check.OK(conn.SetDeadline(until))
	from := bufio.NewReader(conn)
	answer := check.Must(from.ReadString('\n'))
	if answer = strings.TrimSpace(answer); answer != planeIsYours {
		return nil, fmt.Errorf("it is %s by other tests", answer)
	}
	check.Must(fmt.Fprintln(conn, takePlane))
	return &loan{TCPConn: conn.(*net.TCPConn), from: from}, conn.SetDeadline(time.Time{})
}

// loan is a connection by which this process has the control plane.
type loan struct {
	*net.TCPConn
	from io.Reader
}

// Close gives the control plane back, and returns when that is known: others may have it then. It can be called again.
func (l *loan) Close() error {
	err := l.CloseWrite()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	if err == nil {
		err = l.SetReadDeadline(time.Now().Add(time.Minute))
	}
	if err == nil {
		_, err = l.from.Read(make([]byte, 1)) // "back"
	}
	if err != nil {
		err = fmt.Errorf("give the control plane back to go tool task lab: %w", err)
	}
	return errors.Join(err, l.TCPConn.Close())
}

// controlPlane is the shared one, with kubeconfigs in the directory of config. lent gives it back.
func (f planeFile) controlPlane(config ControlPlaneConfig, lent io.Closer) (_ *ControlPlane, err error) {
	defer check.Return(&err)
	c := &ControlPlane{config: config, ports: f.Ports, lent: lent}
	c.config.Dir = check.Must(filepath.Abs(config.Dir))
	check.OK(os.MkdirAll(filepath.Join(c.config.Dir, "kubeconfig"), 0o755))
	check.OK(os.Symlink(f.PKI, c.pki()))
	c.authority = check.Must(readAuthority(c.file("ca")))
	c.admin = check.Must(readPair(c.file("admin")))
	running := func(name string) *component {
		return &component{name: name, logPath: filepath.Join(f.Dir, name+".log"), lent: true}
	}
	c.etcd, c.apiserver = running("etcd"), running("kube-apiserver")
	if config.ControllerManager {
		c.controllers = running("kube-controller-manager")
	}
	if config.Scheduler {
		c.scheduler = running("kube-scheduler")
	}
	return c, nil
}

// readPair reads <path>.crt and <path>.key.
func readPair(path string) (p pair, err error) {
	if p.cert, err = os.ReadFile(path + ".crt"); err != nil {
		return p, err
	}
	p.key, err = os.ReadFile(path + ".key")
	return p, err
}

func readAuthority(path string) (_ *authority, err error) {
	defer check.Return(&err)
	p := check.Must(readPair(path))
	both := check.Must(tls.X509KeyPair(p.cert, p.key))
	key, is := both.PrivateKey.(*ecdsa.PrivateKey)
	if !is {
		return nil, fmt.Errorf("%s.key is a %T", path, both.PrivateKey)
	}
	cert, err := x509.ParseCertificate(both.Certificate[0])
	return &authority{cert: cert, key: key}, err
}
