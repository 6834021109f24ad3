package top

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/seqd/seqd/command/clitool"
)

// Control sequences that every terminal of today knows (ECMA-48, xterm).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// screen draws pages on a terminal. Its zero value draws nothing.
type screen struct {
	env   *clitool.Env
	limit int // of biz types, 0 for as many as fit
	page  *page
	note  string // of what is wrong
	// columns and rows are the size at the last drawing.
	columns, rows int
}

func (s *screen) open()  { _, _ = io.WriteString(clitool.Raw(s.env.Out), enterScreen) }
func (s *screen) close() { _, _ = io.WriteString(clitool.Raw(s.env.Out), leaveScreen) }

// draw draws a page.
func (s *screen) draw(p *page) {
	s.page, s.note = p, ""
	s.redraw()
}

// trouble draws the last page again, with an error.
func (s *screen) trouble(err error) {
	s.note = "seqd: " + s.env.Explain(err).Error()
	s.redraw()
}

func (s *screen) redraw() {
	columns, rows, ok := s.env.Size(s.env.Out)
	if !ok || columns < 1 || rows < 1 {
		columns, rows = 80, 24
	}
	s.columns, s.rows = columns, rows
	var note []string
	if s.note != "" {
		note = strings.Split(s.note, "\n")
	}
	p, limit := *s.page, s.limit
	if limit == 0 {
		limit = max(rows-len(note)-p.linesBesides(), 1)
	}
	p.cut(limit)
	lines := append(note, p.lines()...)
	var b strings.Builder
	b.WriteString(home)
	for i, line := range lines[:min(len(lines), rows)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(fit(clitool.Escape(line), columns) + clearLine)
	}
	b.WriteString(clearBelow)
	_, _ = io.WriteString(clitool.Raw(s.env.Out), b.String()) // Out keeps its error
}

// fit returns the first columns of a line.
func fit(line string, columns int) string {
	runes := []rune(line)
	return string(runes[:min(len(runes), columns)])
}

// wait waits for the next sample, and draws again if the size of the terminal changes.
func (s *screen) wait(ctx context.Context, d time.Duration) error {
	end := time.NewTimer(d)
	defer end.Stop()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-look.C:
			if s.page == nil {
				continue
			}
			if columns, rows, ok := s.env.Size(s.env.Out); ok && (columns != s.columns || rows != s.rows) {
				s.redraw()
			}
		}
	}
}
