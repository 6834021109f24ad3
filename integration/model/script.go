package model

import (
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/seqd/seqd/persist"
)

// programs are the scripts of the product, compiled.
type programs struct{ take, install *lua.FunctionProto }

// compile reads and compiles the scripts without some rules.
func compile(out without) (p programs, err error) {
	for file, program := range map[string]**lua.FunctionProto{takeFile: &p.take, installFile: &p.install} {
		text, err := source(file, out)
		if err != nil {
			return p, err
		}
		chunk, err := parse.Parse(strings.NewReader(text), file)
		if err != nil {
			return p, err
		}
		if *program, err = lua.Compile(chunk, file); err != nil {
			return p, err
		}
	}
	return p, nil
}

// interpreter runs the scripts as a Redis server does. It is for one goroutine; making one is
// expensive.
type interpreter struct {
	state         *lua.LState
	take, install *lua.LFunction
	argv          *lua.LTable
	server        *server  // that the script under way runs on
	words         []string // its reply
	runs          int
}

func newInterpreter(p programs) *interpreter {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath, lua.TabLibName: lua.OpenTable,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	l := &interpreter{state: state, argv: state.NewTable()}
	keys, redis := state.NewTable(), state.NewTable()
	keys.RawSetInt(1, lua.LString(key))
	redis.RawSetString("call", state.NewFunction(l.call))
	state.SetGlobal("KEYS", keys)
	state.SetGlobal("ARGV", l.argv)
	state.SetGlobal("redis", redis)
	l.take, l.install = state.NewFunctionFromProto(p.take), state.NewFunctionFromProto(p.install)
	return l
}

// arguments are what both scripts get: the format version, the cluster, random text, and six of
// their own.
type arguments [9]string

// run runs a script on a server. The reply is valid until the next run.
func (l *interpreter) run(script *lua.LFunction, s *server, args *arguments) ([]string, error) {
	for i, arg := range args {
		l.argv.RawSetInt(i+1, lua.LString(arg))
	}
	l.server = s
	l.runs++
	if err := l.state.CallByParam(lua.P{Fn: script, NRet: 1, Protect: true}); err != nil {
		l.state.SetTop(0)
		return nil, err
	}
	reply := l.state.Get(-1).(*lua.LTable)
	l.state.Pop(1)
	l.words = l.words[:0]
	for i := 1; i <= reply.Len(); i++ {
		word, ok := reply.RawGetInt(i).(lua.LString)
		if !ok {
			return nil, fmt.Errorf("item %d of the reply is no text", i)
		}
		l.words = append(l.words, string(word))
	}
	return l.words, nil
}

// call is redis.call.
func (l *interpreter) call(state *lua.LState) int {
	s := l.server
	switch command := state.CheckString(1); command {
	case "INFO":
		state.Push(lua.LString(s.info))
	case "TIME":
		now := state.CreateTable(2, 0)
		now.RawSetInt(1, lua.LString(strconv.FormatInt(s.clock/1e6, 10)))
		now.RawSetInt(2, lua.LString(strconv.FormatInt(s.clock%1e6, 10)))
		state.Push(now)
	case "HMGET":
		h, top := s.keys[state.CheckString(2)], state.GetTop()
		values := state.CreateTable(top-2, 0)
		for i := 3; i <= top; i++ {
			if value, ok := h[string(state.Get(i).(lua.LString))]; ok {
				values.RawSetInt(i-2, lua.LString(value))
			} else {
				values.RawSetInt(i-2, lua.LFalse)
			}
		}
		state.Push(values)
	case "HSET":
		if s.replica && !s.writable {
			state.RaiseError("READONLY You can't write against a read only replica.")
		}
		top := state.GetTop()
		fields := make([]string, 0, top-2)
		for i := 3; i <= top; i++ {
			fields = append(fields, string(state.Get(i).(lua.LString)))
		}
		s.set(state.CheckString(2), fields)
		state.Push(lua.LNumber(len(fields) / 2))
	default:
		state.RaiseError("the model does not know %s", command)
	}
	return 1
}

// look is a reply of the take script.
type look struct {
	failed     bool // it is no primary, or an error
	stub       bool
	other      bool // it is live under another epoch than the caller's
	gen        string
	epoch      string // that it is live under
	ceil       int64
	low, free  int64
	next, hand int64
	runs       []persist.Range
}

// The values of look.low.
const (
	claimedByOther = 1
	claimedByMe    = 2
)

func readLook(words []string) (l look) {
	switch words[0] {
	case "replica":
		return look{failed: true}
	case "stub":
		return look{stub: true, gen: words[1], ceil: number(words[2]), low: number(words[3])}
	case "other":
		return look{other: true, gen: words[1], ceil: number(words[2]), epoch: words[3]}
	case "took":
		return look{ceil: number(words[1]), runs: []persist.Range{{First: number(words[2]), Last: number(words[3])}}}
	case "live":
	default:
		panic(fmt.Sprintf("take.lua answered %q", words))
	}
	l = look{gen: words[1], ceil: number(words[2]), low: number(words[3]), free: number(words[4]), next: number(words[5]), hand: number(words[6])}
	for i := 7; i < len(words); i += 2 {
		l.runs = append(l.runs, persist.Range{First: number(words[i]), Last: number(words[i+1])})
	}
	return l
}

// answer is a reply of the install script.
type answer struct {
	verdict string
	gen     string
	free    int64
	ceil    int64
}

func readAnswer(words []string) answer {
	a := answer{verdict: words[0]}
	switch a.verdict {
	case "ok":
		a.gen, a.free = words[1], number(words[2])
	case "stale":
		a.ceil = number(words[1])
	case "moved", "full", "replica":
	default:
		panic(fmt.Sprintf("install.lua answered %q", words))
	}
	return a
}
