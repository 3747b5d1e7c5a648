// Command standin stands in for the programs of published workloads. In the main process of a container it prints what
// it finds there, answers the container's ports and probes, and says what it is told. Started a second time in the same
// container, by a probe, a hook or a test, it asks the main process, whatever its name and arguments:
//
//	STAND_IN         a name that no other container of the pod's network has
//	STAND_IN_SHARED  set where other processes are seen: then the first one of the name is the main process
//	STAND_IN_SERVES  ports to answer, such as "http:8080 https:8443 tcp:53 udp:53"
//	STAND_IN_LOOKS   where to look: "list:/dir" with what is below, "look:/dir" without
//	STAND_IN_COPIES  a file, and the place to which it is copied, where what was there is removed before
//	STAND_IN_ENDS    set for one that ends by itself
//
// "/standin fail" makes all probes fail until the main process is started again.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	address := "@stand-in/" + os.Getenv("STAND_IN")
	if os.Getpid() != 1 && os.Getenv("STAND_IN_SHARED") == "" {
		os.Exit(ask(address))
	}
	l, err := net.Listen("unix", address)
	if err != nil {
		if os.Getpid() == 1 {
			fmt.Println("name:", err)
			os.Exit(1)
		}
		os.Exit(ask(address))
	}
	asked := make(chan os.Signal, 8)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1)
	for _, line := range facts() {
		fmt.Println(line)
	}
	if paths := strings.Fields(os.Getenv("STAND_IN_COPIES")); len(paths) == 2 {
		if err := install(paths[0], paths[1]); err != nil {
			fmt.Println("install:", err)
			os.Exit(1)
		}
	}
	if os.Getenv("STAND_IN_ENDS") != "" {
		fmt.Println("ends")
		return
	}
	var s server
	for _, port := range strings.Fields(os.Getenv("STAND_IN_SERVES")) {
		if err := s.serve(port); err != nil {
			fmt.Println("port", port+":", err)
		}
	}
	go s.answer(l, asked)
	fmt.Println("begun")
	fmt.Println("signal", <-asked)
}

// patience is how long a main process has to begin.
const patience = 5 * time.Second

var pause = regexp.MustCompile(`\bsleep (\d+)\b`)

// ask tells the main process how this one was started, and gives the code to end with.
func ask(address string) int {
	line := strings.Join(os.Args, " ")
	if m := pause.FindStringSubmatch(line); m != nil {
		d, err := time.ParseDuration(m[1] + "s")
		if err != nil {
			panic(err) // digits
		}
		time.Sleep(d)
	}
	conn, err := net.Dial("unix", address)
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); conn, err = net.Dial("unix", address) {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer conn.Close()
	fmt.Fprintln(conn, strings.ReplaceAll(line, "\n", " "))
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "ok" {
		fmt.Printf("answer %q %v\n", answer, err)
		return 1
	}
	return 0
}

// server is the main process while it serves.
type server struct {
	mu     sync.Mutex
	broken bool
	told   map[string]bool // lines that were printed
}

func (s *server) works() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.broken
}

// answer serves those who ask. One that kills its program ends it.
func (s *server) answer(l net.Listener, asked chan<- os.Signal) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil {
				return
			}
			line = strings.TrimSpace(line)
			s.hear(line)
			if s.works() || line == "/standin fail" {
				fmt.Fprint(conn, "ok")
			}
			if strings.Contains(line, "kill -SIGTERM") {
				asked <- syscall.SIGTERM
			}
		}()
	}
}

// hear prints a line that is new: a probe comes again and again.
func (s *server) hear(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil {
		s.told = map[string]bool{}
	}
	if !s.told[line] {
		s.told[line] = true
		fmt.Println("exec", line)
	}
	s.broken = s.broken || line == "/standin fail"
}

// install copies a file as an installer of static pods does.
func install(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
