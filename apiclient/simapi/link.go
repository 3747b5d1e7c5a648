package simapi

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors/port"
)

// Link is the state of a node's connection to the apiserver.
type Link uint8

const (
	// Up: it works.
	Up Link = iota
	// Refused: no server listens. Calls fail with Unavailable; running ones fail too, and may
	// have taken effect (Config.LateEffect). Watches break at once.
	Refused
	// Silent: packets are lost. Calls hang until their contexts end; running ones take effect,
	// and their replies are lost. Watches are silent, and break after 8 s (package patience); if the link is up
	// again before, they continue.
	Silent
	// NoAnswers: packets from the server are lost. Calls take effect, and hang until their contexts
	// end. Watches are as in Silent.
	NoAnswers
	// NoWatches: a proxy keeps the watches' connection open and forwards nothing. Open watches are
	// silent and do not break, new ones get no answer. All other calls work.
	NoWatches
)

var linkNames = [...]string{"up", "refused", "silent", "no answers", "no watches"}

// deaf says whether watches hear nothing.
func (l Link) deaf() bool { return l >= Silent }

func (l Link) String() string {
	if int(l) < len(linkNames) {
		return linkNames[l]
	}
	return fmt.Sprintf("Link(%d)", uint8(l))
}

// SetLink sets the state of a node's connection.
func (s *Server) SetLink(node string, l Link) {
	s.stage.Do(func() { s.clientOf(node).become(l) })
}

func (c *client) become(l Link) {
	if c.link == l {
		return
	}
	was := c.link
	c.link = l
	if c.stopPing != nil {
		c.stopPing()
		c.stopPing = nil
	}
	switch l {
	case Refused:
		c.cut("read: connection reset by peer")
	case Silent, NoAnswers:
		// Not those of watches, whose contexts do not end. A watch that starts now is as silent
		// as the others.
		c.s.calls.Each(func(o *op) {
			if o.From == c {
				o.Fault.LoseReply = true
			}
		})
		c.stopPing = c.s.stage.After(pingTimeout, func() {
			c.stopPing = nil
			c.breakWatches(unreachable("http2: client connection lost"))
		})
	case Up, NoWatches:
	}
	if l.deaf() != was.deaf() {
		for _, f := range c.follows {
			if f.state == open {
				f.arm()
			}
		}
	}
}

// cut ends all running calls and watches of a client.
func (c *client) cut(why string) {
	c.s.calls.Kill(func(o *op) bool {
		f, ok := o.From.(*follow)
		return o.From == c || ok && f.c == c
	}, unreachable(why))
	c.breakWatches(unreachable(why))
}

func (c *client) breakWatches(err *port.Error) {
	for _, f := range c.follows {
		if f.state == open {
			e := *err
			e.Verb, e.Object = Watch.String(), f.selected.String()
			f.broken(&e, nil)
		}
	}
}

// SetDown kills the apiserver, or restarts it with all its objects: meanwhile no connection to it
// works. The owner's calls still do.
func (s *Server) SetDown(down bool) {
	s.stage.Do(func() {
		if s.down == down {
			return
		}
		s.down = down
		if down {
			for _, c := range s.clients {
				c.cut("read: connection reset by peer")
			}
		}
	})
}

// CloseWatches ends the streams of a node's watches, as an apiserver does every few minutes. They
// resume at once, or start over if the history is gone.
func (s *Server) CloseWatches(node string) {
	s.stage.Do(func() {
		for _, f := range s.clientOf(node).follows {
			f.reopen()
		}
	})
}

// Forget ends the running calls of a removed node's client without an answer, and forgets the
// client. A client of that name starts over.
func (s *Server) Forget(node string) {
	s.stage.Do(func() {
		c := s.byNode[node]
		if c == nil {
			return
		}
		for _, f := range slices.Clone(c.follows) {
			f.drop()
		}
		var mine []*op
		s.calls.Each(func(o *op) {
			if o.From == c {
				mine = append(mine, o)
			}
		})
		for _, o := range mine {
			o.Forget()
		}
		if c.stopPing != nil {
			c.stopPing()
		}
		delete(s.byNode, node)
		s.clients = slices.DeleteFunc(s.clients, func(x *client) bool { return x == c })
	})
}

// Expire forgets all history, as a compaction does: a watch that is not open cannot resume (410
// Gone).
func (s *Server) Expire() {
	s.stage.Do(func() {
		for _, t := range s.tables {
			t.history.forget(s.version)
		}
	})
}
