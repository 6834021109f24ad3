package model

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// luaFolder is where the product keeps its scripts.
const luaFolder = "../../strategy/segment/rediscursor/lua/"

// programs are the scripts of the product, compiled, by the names that Redis would keep them under.
type programs map[string]*lua.FunctionProto

// compile reads and compiles the scripts without some rules.
func compile(out without) (programs, error) {
	compiled := make(programs)
	for _, file := range []string{"take.lua", "install.lua"} {
		text, err := os.ReadFile(luaFolder + file)
		if err != nil {
			return nil, err
		}
		chunk, err := parse.Parse(strings.NewReader(sabotage.Without(string(text), out.script)), file)
		if err != nil {
			return nil, err
		}
		name := sha1.Sum(text)
		if compiled[hex.EncodeToString(name[:])], err = lua.Compile(chunk, file); err != nil {
			return nil, err
		}
	}
	return compiled, nil
}

// interpreter runs the scripts as a Redis server does, for the product's own client of the cursor.
// It is for one goroutine; making one is expensive.
type interpreter struct {
	state     *lua.LState
	scripts   map[string]*lua.LFunction
	argv      *lua.LTable
	redisCall *lua.LFunction
	cursor    *rediscursor.Cursor
	runs      int

	server *server  // that the script under way runs on
	random string   // what the caller has drawn for it
	args   []string // that it gets, after the random text
	words  []string // its reply
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
	l := &interpreter{state: state, argv: state.NewTable(), scripts: make(map[string]*lua.LFunction)}
	keys, redisTable := state.NewTable(), state.NewTable()
	keys.RawSetInt(1, lua.LString(key))
	l.redisCall = state.NewFunction(l.call)
	redisTable.RawSetString("call", l.redisCall)
	redisTable.RawSetString("pcall", state.NewFunction(l.pcall))
	state.SetGlobal("KEYS", keys)
	state.SetGlobal("ARGV", l.argv)
	state.SetGlobal("redis", redisTable)
	for name, program := range p {
		l.scripts[name] = state.NewFunctionFromProto(program)
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // the hook lets nothing get there
	client.AddHook(l)
	l.cursor = rediscursor.Open(rediscursor.Options{Client: client, Prefix: keyPrefix, Cluster: cluster}, counter)
	return l
}

// DialHook implements [redis.Hook].
func (l *interpreter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (l *interpreter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements [redis.Hook]: it runs the script that a command names.
func (l *interpreter) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		script := l.scripts[args[1].(string)]
		if args[0] != "evalsha" || script == nil || args[3] != key {
			return fmt.Errorf("the model does not know %v", args[:4])
		}
		reply, err := l.run(script, args[4:])
		if err == nil {
			cmd.(interface{ SetVal(any) }).SetVal(reply)
		}
		return err
	}
}

// The arguments that both scripts begin with: the format version, the cluster, random text.
const randomArg = 2

// run runs a script.
func (l *interpreter) run(script *lua.LFunction, args []any) (reply []any, err error) {
	l.args = l.args[:0]
	for i, arg := range args {
		text, ok := arg.(string)
		switch {
		case i == randomArg:
			text = l.random
		case !ok:
			text = strconv.Itoa(arg.(int))
		}
		if i > randomArg {
			l.args = append(l.args, text)
		}
		l.argv.RawSetInt(i+1, lua.LString(text))
	}
	l.runs++
	if err := l.state.CallByParam(lua.P{Fn: script, NRet: 1, Protect: true}); err != nil {
		l.state.SetTop(0)
		return nil, err
	}
	table := l.state.Get(-1).(*lua.LTable)
	l.state.Pop(1)
	l.words = l.words[:0]
	switch first := table.RawGetInt(1).(type) {
	case *lua.LTable: // take.lua has an answer for each key
		if reply, err = l.items(first); err == nil {
			reply = []any{reply}
		}
		return reply, err
	case lua.LString:
		if text := string(first); strings.HasPrefix(text, "took ") {
			l.words = append(l.words, strings.Fields(text)...)
			return []any{text}, nil
		}
	}
	return l.items(table)
}

// items returns an array of texts and keeps them in words.
func (l *interpreter) items(table *lua.LTable) (reply []any, err error) {
	for i := 1; i <= table.Len(); i++ {
		word, ok := table.RawGetInt(i).(lua.LString)
		if !ok {
			return nil, errors.New("an item of the reply is no text")
		}
		l.words = append(l.words, string(word))
		reply = append(reply, string(word))
	}
	return reply, nil
}

// pcall is redis.pcall, which returns an error as a table.
func (l *interpreter) pcall(state *lua.LState) int {
	args := make([]lua.LValue, state.GetTop())
	for i := range args {
		args[i] = state.Get(i + 1)
	}
	if err := state.CallByParam(lua.P{Fn: l.redisCall, NRet: 1, Protect: true}, args...); err != nil {
		failed := state.NewTable()
		failed.RawSetString("err", lua.LString(err.Error()))
		state.Push(failed)
	}
	return 1
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
