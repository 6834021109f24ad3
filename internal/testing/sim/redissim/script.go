package redissim

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/seqd/seqd/internal/sabotage"
)

// script is a script as a server keeps it.
type script struct {
	hash string
	code *lua.FunctionProto
}

// compiled are all scripts, by their texts without the rules that are taken out. Compiling one takes
// longer than running it.
var compiled sync.Map // of string to *lua.FunctionProto

// chunk is what Redis calls the text of a script in errors.
const chunk = "user_script"

func compile(text string) (*lua.FunctionProto, error) {
	if code, found := compiled.Load(text); found {
		return code.(*lua.FunctionProto), nil
	}
	parsed, err := parse.Parse(strings.NewReader(text), chunk)
	if err != nil {
		return nil, err
	}
	code, err := lua.Compile(parsed, chunk)
	if err == nil {
		code.IsVarArg &^= lua.VarArgNeedsArg // no table "arg" for each run
		compiled.Store(text, code)
	}
	return code, err
}

func eval(s *Server, _ *conn, args []string) any {
	sum := sha1.Sum([]byte(args[0]))
	hash := hex.EncodeToString(sum[:])
	if s.scripts[hash] == nil {
		text := args[0]
		if off := s.d.opts.Without; off != nil {
			text = sabotage.Without(text, off)
		}
		code, err := compile(text)
		if err != nil {
			return failure("ERR Error compiling script (new function): " + strings.Join(strings.Fields(err.Error()), " "))
		}
		s.scripts[hash] = &script{hash, code}
	}
	return s.run(s.scripts[hash], args[1:])
}

func evalsha(s *Server, _ *conn, args []string) any {
	known := s.scripts[strings.ToLower(args[0])]
	if known == nil {
		return failure("NOSCRIPT No matching script. Please use EVAL.")
	}
	return s.run(known, args[1:])
}

// run runs a script. The arguments begin with the number of keys.
func (s *Server) run(sc *script, args []string) any {
	n, err := strconv.Atoi(args[0])
	switch {
	case err != nil:
		return notInteger
	case n < 0:
		return failure("ERR Number of keys can't be negative")
	case n > len(args)-1:
		return failure("ERR Number of keys can't be greater than number of args")
	}
	if s.d.lua == nil {
		s.d.lua = newInterpreter()
	}
	return s.d.lua.run(s, sc, args[1:1+n], args[1+n:])
}

// interpreter runs scripts, one at a time.
type interpreter struct {
	state     *lua.LState
	functions map[*lua.FunctionProto]*lua.LFunction

	server *Server // that the script under way runs on
	wrote  bool    // it has called a command that writes
}

// prelude makes pcall return the text of an error of Redis, as Redis does.
const prelude = `
local pcall, type = pcall, type
local function settle(ok, err, ...)
  if not ok and type(err) == 'table' and err.err then
    err = err.err
  end
  return ok, err, ...
end
return function(...) return settle(pcall(...)) end`

func newInterpreter() *interpreter {
	state := lua.NewState(lua.Options{SkipOpenLibs: true, CallStackSize: 64, RegistrySize: 1 << 10, RegistryMaxSize: 1 << 20})
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath, lua.TabLibName: lua.OpenTable,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	l := &interpreter{state: state, functions: make(map[*lua.FunctionProto]*lua.LFunction)}
	state.SetGlobal("redis", state.SetFuncs(state.NewTable(), map[string]lua.LGFunction{
		"call": l.call, "pcall": l.pcall,
		"acl_check_cmd": func(state *lua.LState) int {
			state.Push(lua.LTrue)
			return 1
		},
		"status_reply": func(state *lua.LState) int {
			state.Push(l.field("ok", state.CheckString(1)))
			return 1
		},
		"error_reply": func(state *lua.LState) int {
			text := strings.TrimPrefix(state.CheckString(1), "-")
			if !strings.Contains(text, " ") {
				text = "ERR " + text
			}
			state.Push(l.field("err", text))
			return 1
		},
	}))
	state.SetGlobal("tonumber", state.NewFunction(toNumber))
	if err := state.DoString(prelude); err != nil {
		panic(err)
	}
	state.SetGlobal("pcall", state.Get(-1))
	state.SetTop(0)
	for _, name := range []string{"KEYS", "ARGV"} {
		state.SetGlobal(name, lua.LFalse)
	}
	l.protect()
	return l
}

// protect lets scripts neither make global variables nor read what is not there.
func (l *interpreter) protect() {
	guard := l.state.SetFuncs(l.state.NewTable(), map[string]lua.LGFunction{
		"__index": func(state *lua.LState) int {
			state.RaiseError("Script attempted to access nonexistent global variable '%s'", state.ToString(2))
			return 0
		},
		"__newindex": func(state *lua.LState) int {
			state.RaiseError("Attempt to modify a readonly table")
			return 0
		},
	})
	l.state.SetMetatable(l.state.Get(lua.GlobalsIndex), guard)
}

// toNumber is tonumber. That of gopher-lua takes 010 for 8 and 1_0 for 10.
func toNumber(state *lua.LState) int {
	switch v := state.CheckAny(1).(type) {
	case lua.LNumber:
		state.Push(v)
		return 1
	case lua.LString:
		if n, err := parseNumber(strings.Trim(string(v), " \t\r\n\v\f"), state.OptInt(2, 10)); err == nil {
			state.Push(n)
			return 1
		}
	}
	state.Push(lua.LNil)
	return 1
}

func parseNumber(text string, base int) (lua.LNumber, error) {
	n, err := strconv.ParseInt(text, base, 64)
	if err == nil || base != 10 || strings.Contains(text, "_") {
		return lua.LNumber(n), err
	}
	f, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		f, err = strconv.ParseFloat(text+"p0", 64) // 0x10
	} else {
		err = nil // out of range: ±Inf
	}
	return lua.LNumber(f), err
}

// run runs a script on a server.
func (l *interpreter) run(s *Server, sc *script, keys, argv []string) any {
	fn := l.functions[sc.code]
	if fn == nil {
		fn = l.state.NewFunctionFromProto(sc.code)
		l.functions[sc.code] = fn
	}
	l.server, l.wrote = s, false
	l.state.SetGlobal("KEYS", l.texts(keys))
	l.state.SetGlobal("ARGV", l.texts(argv))
	err := l.state.CallByParam(lua.P{Fn: fn, NRet: 1, Protect: true})
	if err != nil {
		l.state.SetTop(0)
		return failed(err, sc)
	}
	result := l.state.Get(-1)
	l.state.Pop(1)
	return fromLua(result)
}

func (l *interpreter) texts(texts []string) *lua.LTable {
	table := l.state.CreateTable(len(texts), 0)
	for i, text := range texts {
		table.RawSetInt(i+1, lua.LString(text))
	}
	return table
}

// failed returns the reply of a script that ended with an error.
func failed(err error, sc *script) failure {
	var thrown *lua.ApiError
	if !errors.As(err, &thrown) {
		return failure("ERR " + err.Error())
	}
	text, line := "ERR "+thrown.Object.String(), "?"
	if table, isTable := thrown.Object.(*lua.LTable); isTable {
		text, line = table.RawGetString("err").String(), table.RawGetString("line").String()
	} else if parts := strings.SplitN(thrown.Object.String(), ":", 3); len(parts) == 3 && parts[0] == chunk {
		line = parts[1]
	}
	return failure(strings.NewReplacer("\r", " ", "\n", " ").Replace(text) + " script: " + sc.hash + ", on @" + chunk + ":" + line + ".")
}

// call is redis.call.
func (l *interpreter) call(state *lua.LState) int {
	reply := l.command(state)
	value := l.toLua(reply)
	if _, isError := reply.(failure); isError {
		where := strings.Split(state.Where(1), ":") // user_script:LINE:
		if len(where) > 1 {
			value.(*lua.LTable).RawSetString("line", lua.LString(where[1]))
		}
		state.Error(value, 1)
	}
	state.Push(value)
	return 1
}

// pcall is redis.pcall, which returns an error as a table.
func (l *interpreter) pcall(state *lua.LState) int {
	state.Push(l.toLua(l.command(state)))
	return 1
}

// command executes the command that a script calls.
func (l *interpreter) command(state *lua.LState) any {
	args := make([]string, state.GetTop())
	for i := range args {
		switch v := state.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = strconv.FormatFloat(float64(v), 'g', 17, 64)
		default:
			return failure("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(args) == 0 {
		return failure("ERR Please specify at least one argument for this redis lib call")
	}
	s, cmd := l.server, lookUp(args[0])
	switch {
	case cmd == nil:
		s.d.doesNotKnow("the command " + args[0] + " in scripts")
		return failure("ERR Unknown Redis command called from script")
	case !cmd.takes(len(args) - 1):
		return failure("ERR Wrong number of args calling Redis command from script")
	case cmd.flags&outside != 0:
		return failure("ERR This Redis command is not allowed from script")
	}
	if cmd.flags&writes != 0 && !l.wrote {
		if r := s.refuses(cmd); r != "" {
			return failure(r)
		}
		l.wrote = true
	}
	return cmd.run(s, nil, args[1:])
}

// toLua returns what a script sees of a reply.
func (l *interpreter) toLua(reply any) lua.LValue {
	switch r := reply.(type) {
	case string:
		return lua.LString(r)
	case int64:
		return lua.LNumber(r)
	case status:
		return l.field("ok", string(r))
	case failure:
		return l.field("err", string(r))
	case []any:
		table := l.state.CreateTable(len(r), 0)
		for i, item := range r {
			table.RawSetInt(i+1, l.toLua(item))
		}
		return table
	}
	return lua.LFalse
}

func (l *interpreter) field(name, text string) *lua.LTable {
	table := l.state.NewTable()
	table.RawSetString(name, lua.LString(text))
	return table
}

// fromLua returns the reply that a value becomes.
func fromLua(value lua.LValue) any {
	switch v := value.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return int64(math.Trunc(float64(v)))
	case lua.LBool:
		if v {
			return int64(1)
		}
	case *lua.LTable:
		if text, isText := v.RawGetString("err").(lua.LString); isText {
			return failure(text)
		}
		if text, isText := v.RawGetString("ok").(lua.LString); isText {
			return status(text)
		}
		reply := []any{}
		for i := 1; v.RawGetInt(i) != lua.LNil; i++ {
			reply = append(reply, fromLua(v.RawGetInt(i)))
		}
		return reply
	}
	return nil
}
