package remote_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A hostile service steers neither the terminal, by what commands print of it, nor the shell, by
// completions; nor does it forge lines of tables and errors.
func TestHostileService(t *testing.T) {
	const evil = `\u001b]0;x\u0007\n0\u0085\u009b2J\u202eforged`
	list := fmt.Sprintf(`{"bizTypes":[{"name":"a%s","definition":{"strategy":"%[1]s"}},{"name":"b;reboot"},{"name":"good"}],
		"tokens":[{"name":"%[1]s","scopes":["%[1]s"]}],"nodes":[{"node":"%[1]s","addr":"%[1]s","version":"%[1]s","state":"%[1]s"}]}`, evil)
	all := answering(t, answerJSON(http.StatusOK, list)).line(t)
	refused := answering(t, answerJSON(http.StatusConflict, fmt.Sprintf(`{"code":"%s","detail":"%[1]s","problems":[{"key":"%[1]s","text":"%[1]s"}]}`, evil))).line(t)
	plain := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, "\x1b[2J\u009b\n")
	}).line(t)
	parsed := answering(t, answerJSON(http.StatusOK, fmt.Sprintf(`{"bizType":"%s","id":"%[1]s","number":"1","key":"%[1]s","period":"%[1]s"}`, evil))).line(t)
	one := answering(t, answerJSON(http.StatusOK, fmt.Sprintf(`{"bizType":"x","reservation":"4f1c0a9be2d3c4a5b6e7","ids":["%s"],"state":"%[1]s",
		"name":"%[1]s","source":"%[1]s","definition":{"%[1]s":"%[1]s"},"warnings":["%[1]s"],"example":"%[1]s","scopes":["%[1]s"],"secret":"%[1]s","id":"%[1]s"}`, evil))).line(t)
	made := answering(t, answerJSON(http.StatusCreated, fmt.Sprintf(`{"bizType":"x","reservation":"4f1c0a9be2d3c4a5b6e7","ids":["%s"],"state":"%[1]s","name":"%[1]s",
		"scopes":["%[1]s"],"secret":"%[1]s","id":"%[1]s","source":"%[1]s","definition":{}}`, evil))).line(t)
	for _, l := range []line{all, refused, plain, parsed, one, made} {
		for _, args := range []string{"biz-types list", "biz-types get x", "tokens list", "nodes", "next x", "parse x 1", "gaps x", "top --once",
			"biz-types disable x", "biz-types enable x", "tokens get x", "tokens create x --scope read", "tokens secrets create x", "reserve x", "confirm x 4f1c0a9be2d3c4a5b6e7"} {
			for _, more := range []string{"", " --json"} {
				got := l.run(strings.Fields(args + more)...)
				if at := strings.IndexAny(got.out+got.errs, "\x1b\a\u0085\u009b\u202e"); at >= 0 {
					t.Errorf("%s%s: %+v", args, more, got)
				}
				if strings.Contains("\n"+got.out+got.errs, "\n0") {
					t.Errorf("%s%s: a forged line: %+v", args, more, got)
				}
			}
		}
	}
	got := all.run("__complete", "biz-types", "get", "")
	if first, _, _ := strings.Cut(got.out, "\n:"); first != "good" {
		t.Errorf("completions %q", got.out)
	}
}
