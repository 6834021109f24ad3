package main

import (
	"context"
	"io"
	"net"
	"time"
)

// link is a TCP proxy that delays everything that comes from upstream.
type link struct {
	addr     string
	upstream string
	by       time.Duration
	listener net.Listener
	ctx      context.Context // ended by stop
	end      context.CancelFunc
}

func delayed(upstream string, by time.Duration) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{addr: listener.Addr().String(), upstream: upstream, by: by, listener: listener}
	l.ctx, l.end = context.WithCancel(context.Background())
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.relay(conn)
		}
	}()
	return l, nil
}

func (l *link) stop() error { l.end(); return l.listener.Close() }

// relay serves one connection until one of its ends closes it, or the link stops.
func (l *link) relay(down net.Conn) {
	defer down.Close()
	up, err := net.Dial("tcp", l.upstream)
	if err != nil {
		return
	}
	defer up.Close()
	defer context.AfterFunc(l.ctx, func() { _, _ = up.Close(), down.Close() })()
	go func() {
		_, _ = io.Copy(up, down)
		_ = up.Close()
	}()
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			data := make([]byte, 16<<10)
			n, err := up.Read(data)
			if err != nil {
				return
			}
			pieces <- piece{time.Now().Add(l.by), data[:n]}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := down.Write(p.data); err != nil {
			_ = up.Close() // and the reader ends
		}
	}
}
