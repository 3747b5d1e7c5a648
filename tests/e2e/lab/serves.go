package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// Serves is nil if a server answers at the URL, with these words in its answer. It asks once.
func Serves(ctx context.Context, url, words string) (err error) {
	defer check.Return(&err)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := check.Must(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))
	resp := check.Must(http.DefaultClient.Do(req))
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(text), words)) {
		err = fmt.Errorf("%s answers %s, %q", url, resp.Status, text)
	}
	return err
}

// Buffer is one that may be read while a process writes it.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *Buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
