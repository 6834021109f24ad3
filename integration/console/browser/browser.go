// Package browser drives Debian's chromium in tests of pages, as a person would: it finds what is on
// a page by role and accessible name, as a screen reader does, or by label, and uses the mouse and
// the keyboard.
//
// A page that does something that its test does not expect fails the test: errors and warnings on
// the console, exceptions, violations of the content security policy, dialogs of scripts, requests
// to another origin, and anything kept in the browser that a script can read.
//
// There is one browser process for each test binary. Every page has its own cookies. Methods end the
// test if they fail, so they must be called from its own goroutine. A missing browser fails the test
// and never skips it.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/chromedp/chromedp"
)

const interval = 20 * time.Millisecond

// The window of a page, in CSS pixels, unless a test wants another.
const (
	Width  = 1280
	Height = 900
	Narrow = 360
)

// end ends the browser, if it was started, and removes its profile.
var end = func() {}

// start starts the browser once. The context is the parent of those of all pages.
var start = sync.OnceValues(func() (context.Context, error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("chromium is missing; install it: apt-get update && apt-get install -y chromium")
	}
	profile, err := os.MkdirTemp("", "seqd-browser-")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.UserDataDir(profile),
		chromedp.Flag("headless", "new"),
		chromedp.DisableGPU,
		chromedp.Flag("lang", "en-US"),
		chromedp.Env("LANG=en_US.UTF-8", "LANGUAGE=en_US"),
		// Nothing but this machine exists.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
		chromedp.Flag("no-proxy-server", true),
	)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // chromium refuses to have one as root
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(ignore), chromedp.WithLogf(ignore))
	end = func() {
		_ = chromedp.Cancel(ctx) // closes the browser; it fails only if it has ended
		cancel()
		stop()
		_ = os.RemoveAll(profile)
	}
	if err := chromedp.Run(ctx); err != nil {
		end()
		end = func() {}
		return nil, fmt.Errorf("start chromium: %w", err)
	}
	return ctx, nil
})

// ignore takes what chromedp logs: events of a newer browser that it does not know.
func ignore(string, ...any) {}

// End ends the browser. A TestMain calls it after all tests.
func End() { end() }
