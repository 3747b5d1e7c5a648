// Command web is a small web server: / greets or answers with a file, /healthz answers ok.
//
//	PORT     where it listens (default 8080)
//	CONTENT  a file whose text / answers with, read at every request (default: a greeting)
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	host, _ := os.Hostname()
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		file := os.Getenv("CONTENT")
		if file == "" {
			fmt.Fprintln(w, "hello from", host)
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Write(text)
	})

	server := &http.Server{Addr: ":" + port, ReadHeaderTimeout: 5 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	fmt.Println("web: listening on", server.Addr)
	select {
	case err := <-failed:
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	case <-ctx.Done():
		fmt.Println("web: asked to stop")
		drain, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		server.Shutdown(drain)
	}
}
