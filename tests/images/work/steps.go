package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/supervisor/host/volume/projectquota"
)

// run does one step.
func run(step []string, terminated <-chan os.Signal) error {
	verb, args := step[0], step[1:]
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	rest := func(i int) string { return strings.Join(args[min(i, len(args)):], " ") }
	switch verb {
	case "sleep":
		return sleep(arg(0), terminated)
	case "exit":
		code, err := strconv.Atoi(arg(0))
		if err == nil {
			os.Exit(code)
		}
		return err
	case "trap":
		return trap(arg(0), terminated)
	case "ignore":
		for range terminated {
			fmt.Println("SIGTERM ignored")
		}
	case "print":
		fmt.Println(rest(0))
	case "warn":
		fmt.Fprintln(os.Stderr, rest(0))
	case "lines":
		n, err := strconv.Atoi(arg(0))
		for i := range n {
			fmt.Println("line", i+1)
		}
		return err
	case "touch":
		return write(arg(0), os.O_CREATE, "")
	case "write":
		return write(arg(0), os.O_CREATE|os.O_TRUNC, rest(1)+"\n")
	case "append":
		return write(arg(0), os.O_CREATE|os.O_APPEND, rest(1)+"\n")
	case "tick":
		return tick(arg(0), arg(1), rest(2)+"\n", terminated)
	case "cat":
		return each(args, cat)
	case "unproject":
		return unproject(arg(0))
	case "remove":
		return each(args, os.RemoveAll)
	case "await":
		return await(arg(0), terminated)
	case "turns":
		return turns(arg(0), arg(1))
	case "env":
		return env(args)
	case "id":
		return id()
	case "mounts":
		return cat("/proc/self/mountinfo")
	case "see":
		return see()
	case "serve":
		return listen(arg(0), terminated, answer)
	case "get":
		return get(arg(0), arg(1))
	case "echo":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case "screen":
		return screen()
	case "listen":
		return listen(arg(0), terminated, func(c net.Conn) {
			io.Copy(c, c) //nolint:errcheck // a client may leave
		})
	case "pour":
		return pour(arg(0), arg(1), terminated)
	case "hog":
		return hog(arg(0), arg(1), arg(2), terminated)
	case "fill":
		return fill(arg(0), arg(1), arg(2), terminated)
	case "flood":
		return flood(arg(0), terminated)
	default:
		return errors.New("no such step")
	}
	return nil
}

// sleep returns after d, or ends the program with 143 as soon as it is told to terminate.
func sleep(d string, terminated <-chan os.Signal) error {
	var over <-chan time.Time // for ever
	if d != "" {
		length, err := time.ParseDuration(d)
		if err != nil {
			return err
		}
		over = time.After(length)
	}
	select {
	case <-over:
	case <-terminated:
		fmt.Println("SIGTERM: ending")
		os.Exit(143)
	}
	return nil
}

func trap(linger string, terminated <-chan os.Signal) error {
	var length time.Duration
	if linger != "" {
		var err error
		if length, err = time.ParseDuration(linger); err != nil {
			return err
		}
	}
	<-terminated
	fmt.Println("SIGTERM: lingering", length)
	time.Sleep(length)
	fmt.Println("lingered")
	return nil
}

func write(file string, how int, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|how, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}

func tick(file, every, text string, terminated <-chan os.Signal) error {
	for {
		if err := write(file, os.O_CREATE|os.O_APPEND, text); err != nil {
			return err
		}
		if err := sleep(every, terminated); err != nil {
			return err
		}
	}
}

func each(args []string, do func(string) error) error {
	for _, a := range args {
		if err := do(a); err != nil {
			return err
		}
	}
	return nil
}

func cat(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(os.Stdout, f)
	return err
}

// unproject is nil if the kernel refuses it, as it does within a user namespace.
func unproject(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	was, err := projectquota.Linux{}.Attributes(f)
	if err != nil {
		return err
	}
	if was.Project == 0 {
		return fmt.Errorf("%s has no project", file)
	}
	is := was
	is.Project = 0
	if err := (projectquota.Linux{}).SetAttributes(f, is); err == nil {
		return fmt.Errorf("%s had project %d and has none", file, was.Project)
	}
	return nil
}

func await(file string, terminated <-chan os.Signal) error {
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		if err := sleep("50ms", terminated); err != nil {
			return err
		}
	}
}

// turns lets a container fail a known number of times, however often it is restarted.
func turns(file, need string) error {
	n, err := strconv.Atoi(need)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	done, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	done++
	if err := write(file, os.O_CREATE|os.O_TRUNC, strconv.Itoa(done)); err != nil {
		return err
	}
	if done < n {
		return fmt.Errorf("turn %d of %d", done, n)
	}
	return nil
}

func env(names []string) error {
	if len(names) == 0 {
		fmt.Println(strings.Join(os.Environ(), "\n"))
		return nil
	}
	return each(names, func(name string) error {
		value, ok := os.LookupEnv(name)
		if !ok {
			return fmt.Errorf("%s is not set", name)
		}
		fmt.Printf("%s=%s\n", name, value)
		return nil
	})
}

func id() error {
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	fmt.Printf("uid=%d gid=%d groups=%v host=%s cwd=%s\n", os.Getuid(), os.Getgid(), groups, host, cwd)
	return nil
}

func get(address, path string) error {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", path); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, conn)
	return err
}

func hog(what, much, rate string, terminated <-chan os.Signal) error {
	switch what {
	case "memory":
		mib, err := strconv.Atoi(much)
		if err != nil {
			return err
		}
		held := make([][]byte, 0, mib)
		err = paced(rate, mib, terminated, func() error {
			block := make([]byte, 1<<20)
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1 // a page counts only once it is written to
			}
			held = append(held, block)
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Println("holding", len(held), "MiB")
		err = sleep("", terminated)
		_ = held[0]
		return err
	case "cpu":
		length, err := time.ParseDuration(much)
		if err != nil {
			return err
		}
		for end := time.Now().Add(length); time.Now().Before(end); {
			select {
			case <-terminated:
				os.Exit(143)
			default:
			}
		}
		return nil
	}
	return errors.New("hog memory MIB or hog cpu D")
}

// paced does the work of one MiB n times, for ever if n is 0, at a rate of MiB per second; as fast as it can if
// rate is empty. It ends the program with 143 when it is told to terminate.
func paced(rate string, n int, terminated <-chan os.Signal, work func() error) error {
	var pace <-chan time.Time
	if rate != "" {
		perSecond, err := strconv.Atoi(rate)
		if err != nil || perSecond < 1 {
			return fmt.Errorf("rate %q: want MiB per second, like 100", rate)
		}
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		pace = tick.C
	}
	for i := 0; n == 0 || i < n; i++ {
		if pace != nil {
			select {
			case <-pace:
			case <-terminated:
				os.Exit(143)
			}
		}
		if err := work(); err != nil {
			return err
		}
	}
	return nil
}

func fill(file, rate, most string, terminated <-chan os.Signal) error {
	mib := 0
	if most != "" {
		var err error
		if mib, err = strconv.Atoi(most); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	err = paced(rate, mib, terminated, func() error {
		_, err := f.Write(block)
		return err
	})
	if err != nil {
		return err
	}
	return sleep("", terminated)
}

func flood(rate string, terminated <-chan os.Signal) error {
	block := strings.Repeat(strings.Repeat("x", 1023)+"\n", 1<<10)
	return paced(rate, 0, terminated, func() error {
		_, err := os.Stdout.WriteString(block)
		return err
	})
}
