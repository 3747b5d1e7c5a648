package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"time"
)

// serve answers a port, such as http:8080.
func (s *server) serve(port string) error {
	kind, number, _ := strings.Cut(port, ":")
	if kind == "udp" {
		_, err := net.ListenPacket("udp", ":"+number)
		return err
	}
	l, err := net.Listen("tcp", ":"+number)
	if err != nil {
		return err
	}
	switch kind {
	case "http":
		go s.web(l)
	case "https":
		certificate, err := certificate()
		if err != nil {
			return err
		}
		go s.web(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}}))
	default:
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					io.Copy(conn, conn) //nolint:errcheck // a client may leave
				}()
			}
		}()
	}
	return nil
}

// web says that all is well, or that nothing is.
func (s *server) web(l net.Listener) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !s.works() {
			http.Error(w, "it was told to fail", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: answer}
	server.Serve(l) //nolint:errcheck // it ends with the process
}

func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
