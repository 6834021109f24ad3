package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/respconn"
)

// longestPipeline is how many commands a pipeline has at most.
const longestPipeline = 50

// command asks for numbers by the Redis protocol.
type command struct {
	shape *Shape
	name  string
	count int
	of    string // the key of a keyed biz type
}

// line returns the command as people type it.
func (c command) line() string {
	switch {
	case c.name == "INCR":
		return fmt.Sprintf("INCR %s", c.shape.Name)
	case c.name == "INCRBY":
		return fmt.Sprintf("INCRBY %s %d", c.shape.Name, c.count)
	}
	text := "SEQ.NEXT " + c.shape.Name
	if c.count > 1 {
		text += fmt.Sprintf(" COUNT %d", c.count)
	}
	if c.of != "" {
		text += " KEY " + c.of
	}
	return text
}

// answer is what a command got: IDs, or an error.
type answer struct {
	ids    []string
	first  int64 // of INCRBY: count numbers from here on
	status int   // as HTTP would answer; 0 if nothing came
	code   string
}

// pipelines sends commands of the Redis protocol, alone and in pipelines, on connections that last
// as long as their nodes.
func (l *Load) pipelines(ctx context.Context, d *Dice) {
	conns := make(map[Node]*respconn.Conn)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for ctx.Err() == nil {
		r := d.Next()
		n, leave := Pick(r, l.Nodes), time.Duration(0)
		commands := l.commands(r)
		if r.IntN(25) == 0 {
			leave = UpTo(r, 12*time.Millisecond) + 1
		}
		pause := UpTo(r, 40*time.Millisecond)
		if !l.pipeline(n, conns, commands, leave) {
			if c := conns[n]; c != nil {
				_ = c.Close()
				delete(conns, n)
			}
			pause += 20 * time.Millisecond
		}
		l.rest(ctx, pause)
	}
}

// commands draws the commands of a pipeline.
func (l *Load) commands(r *rand.Rand) []command {
	all := make([]command, 1)
	if r.IntN(2) > 0 {
		all = make([]command, 1+r.IntN(longestPipeline))
	}
	for i := range all {
		s := l.weighted(r)
		all[i] = command{shape: s, name: "SEQ.NEXT", count: Pick(r, s.counts)}
		all[i].of = s.key(r)
		switch roll := r.IntN(100); {
		case s.Display != "" || s.Strategy == record.Snowflake || all[i].of != "" || roll < 20:
		case roll < 40 && s.ranged:
			all[i].name = "INCRBY"
		default:
			all[i].name, all[i].count = "INCR", 1
		}
	}
	return all
}

// pipeline sends commands to a node, records what they got, and reports whether the connection can
// be used again.
func (l *Load) pipeline(n Node, conns map[Node]*respconn.Conn, commands []command, leave time.Duration) bool {
	l.Sending.RLock()
	defer l.Sending.RUnlock()
	life := n.Life()
	start := l.Journal.Now()
	answers, err := l.converse(n, conns, commands, leave)
	of := record.Call{Node: n.Name(), Protocol: record.RESP, Start: start, End: l.Journal.Now()}
	if life == n.Life() {
		of.Life = life
	}
	for _, c := range calls(of, commands, answers, err) {
		l.Journal.Call(c)
	}
	return err == nil
}

// converse sends commands and returns the answers that arrived.
func (l *Load) converse(n Node, conns map[Node]*respconn.Conn, commands []command, leave time.Duration) (answers []answer, err error) {
	c := conns[n]
	if c == nil {
		if c, err = dialRESP(n); err != nil {
			return nil, err
		}
		conns[n] = c
	}
	if leave > 0 {
		defer time.AfterFunc(leave, func() { _ = c.Close() }).Stop()
	}
	_ = c.SetDeadline(time.Now().Add(UsualPatience)) // fails only if it is closed
	lines := make([]string, len(commands))
	for i, cmd := range commands {
		lines[i] = cmd.line()
	}
	if err := c.Send(lines...); err != nil {
		return nil, err
	}
	for _, cmd := range commands {
		a, err := readAnswer(c, cmd)
		if err != nil {
			return answers, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// readAnswer reads the answer to a command.
func readAnswer(c *respconn.Conn, cmd command) (answer, error) {
	got, err := c.Read()
	if refused, is := errors.AsType[respconn.Error](err); is {
		return refusal(string(refused)), nil
	}
	a := answer{status: 200}
	switch v := got.(type) {
	case int64:
		if cmd.name == "INCRBY" {
			a.first = v - int64(cmd.count) + 1
		} else {
			a.ids = []string{strconv.FormatInt(v, 10)}
		}
	case string:
		a.ids = []string{v}
	case []any:
		for _, id := range v {
			a.ids = append(a.ids, fmt.Sprint(id))
		}
	}
	return a, err
}

// statuses are the statuses that HTTP has for codes of a refusal. The checker does not accept 500.
var statuses = map[string]int{
	"starting": 503, "stopping": 503, "overloaded": 503, "store_unavailable": 503, "redis_unavailable": 503, "clock_rollback": 503, "no_machine_id": 503, "timeout": 503,
	"rate_limited": 429, "disabled": 409, "unknown_biz_type": 404, "too_many_reserved": 409, "store_failed_over": 409, "conflict": 409,
	"invalid_request": 400, "unauthorized": 401,
}

// refusal reads an error such as "TRYAGAIN timeout: the request took too long".
func refusal(text string) answer {
	_, said, _ := strings.Cut(text, " ")
	code, _, _ := strings.Cut(said, ":")
	if status := statuses[code]; status != 0 {
		return answer{status: status, code: code}
	}
	return answer{status: 500, code: text}
}

// inOrder reports whether numbers of commands that follow each other increase. Those with texts may
// be of several periods, gapless ones are in no order, and those of snowflake follow the clock,
// which may be set back.
func (s *Shape) inOrder() bool { return s.Display == "" && !s.Booked && s.Strategy != record.Snowflake }

// calls returns what to record of a pipeline. Answers about one biz type are one call, because they
// must be in order. So are refusals for one reason: a pipeline that is refused counts once for each
// biz type, like any other request. Answers that need not be in order are calls of their own.
func calls(of record.Call, commands []command, answers []answer, err error) (all []*record.Call) {
	type outcome struct {
		shape *Shape
		of    string
		code  string // empty for an answer
	}
	together := make(map[outcome]*record.Call)
	for i, cmd := range commands {
		var a answer
		if i < len(answers) {
			a = answers[i]
		} else {
			a.code = Complaint(err)
		}
		joined := together[outcome{cmd.shape, cmd.of, a.code}]
		if joined == nil {
			joined = &record.Call{Node: of.Node, Life: of.Life, Protocol: of.Protocol, Start: of.Start, End: of.End,
				BizType: cmd.shape.Name, Of: cmd.of, Kind: record.Single, Status: a.status, Code: a.code}
			all = append(all, joined)
			if a.code != "" || cmd.shape.inOrder() {
				together[outcome{cmd.shape, cmd.of, a.code}] = joined
			}
		}
		if joined.Asked += cmd.count; joined.Asked > 1 {
			joined.Kind = record.Batch
		}
		if a.code == "" {
			cmd.add(joined, a)
		}
	}
	return all
}

// add adds an answer to a call.
func (c command) add(to *record.Call, a answer) {
	if a.first != 0 {
		to.Runs = append(to.Runs, record.Run{First: a.first, Count: int64(c.count), Step: 1})
		return
	}
	read := record.Call{}
	r := request{shape: c.shape, count: c.count}
	r.readIDs(&read, a.ids)
	to.Texts = append(to.Texts, read.Texts...)
	to.Runs = append(to.Runs, read.Runs...)
	if read.Code != "" {
		to.Code = read.Code
	}
}

// dialRESP connects to a node.
func dialRESP(n Node) (*respconn.Conn, error) {
	c, err := n.DialRESP()
	if err != nil {
		return nil, err
	}
	return respconn.New(c), nil
}
