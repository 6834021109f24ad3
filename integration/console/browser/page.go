package browser

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/seqd/seqd/internal/testing/await"
)

// ScreenshotsEnv is the environment variable with the folder for screenshots; without it none are
// kept.
const ScreenshotsEnv = "SEQD_TEST_SCREENSHOTS"

// Zone is the time zone of the reader.
const Zone = "Europe/Berlin"

// Page is a tab with cookies of its own.
type Page struct {
	Scope
	t      testing.TB
	ctx    context.Context
	box    cdp.BrowserContextID
	origin string

	mu       sync.Mutex // guards what follows
	faults   []string
	expected []*regexp.Regexp
	requests []Request
	leaving  bool // what a dialog that asks before leaving is answered
}

// Request is a request that the page sent.
type Request struct{ Method, URL string }

// Open opens an empty tab for the pages of one origin, such as http://127.0.0.1:8080.
func Open(t testing.TB, origin string) *Page {
	t.Helper()
	parent, err := start()
	if err != nil {
		t.Fatal(err)
	}
	control := cdp.WithExecutor(parent, chromedp.FromContext(parent).Browser)
	box, err := target.CreateBrowserContext().Do(control)
	if err != nil {
		t.Fatalf("make a place for cookies: %v", err)
	}
	t.Cleanup(func() { _ = target.DisposeBrowserContext(box).Do(control) })
	return open(t, origin, box)
}

// Another opens another empty tab with the same cookies.
func (p *Page) Another() *Page {
	p.t.Helper()
	return open(p.t, p.origin, p.box)
}

// open opens a tab whose cookies are in box.
func open(t testing.TB, origin string, box cdp.BrowserContextID) *Page {
	t.Helper()
	parent, err := start()
	if err != nil {
		t.Fatal(err)
	}
	control := cdp.WithExecutor(parent, chromedp.FromContext(parent).Browser)
	tab, err := target.CreateTarget("about:blank").WithBrowserContextID(box).WithNewWindow(true).Do(control)
	if err != nil {
		t.Fatalf("open a window: %v", err)
	}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithTargetID(tab))
	p := &Page{t: t, ctx: ctx, box: box, origin: origin}
	p.page, p.what = p, "the page"
	chromedp.ListenTarget(ctx, p.listen)
	t.Cleanup(func() {
		p.check()
		cancel()
	})
	// The first run must have the context of the tab: the connection ends with that context.
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	p.run("prepare the tab",
		network.Enable(),
		emulation.SetTimezoneOverride(Zone),
		emulation.SetLocaleOverride().WithLocale("en-US"),
		emulation.SetDeviceMetricsOverride(Width, Height, 1, false),
		emulation.SetFocusEmulationEnabled(true), // several tabs at once
	)
	return p
}

// run runs actions, bounded in time.
func (p *Page) run(what string, actions ...chromedp.Action) {
	p.t.Helper()
	if err := p.try(actions...); err != nil {
		p.fatalf("%s: %v", what, err)
	}
}

func (p *Page) try(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(p.ctx, await.Patience)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// fatalf ends the test, and shows what the page shows.
func (p *Page) fatalf(format string, args ...any) {
	p.t.Helper()
	text := fmt.Sprintf(format, args...)
	var shown, where string
	_ = p.try(chromedp.Evaluate("document.body.innerText", &shown), chromedp.Location(&where))
	p.Shot("failed-" + strings.Map(letters, p.t.Name()))
	p.t.Fatalf("%s\nfaults: %q\n%s shows:\n%s", text, p.Faults(), where, shown)
}

// letters keeps what is harmless in the name of a file.
func letters(r rune) rune {
	if strings.ContainsRune("/ :#", r) {
		return '-'
	}
	return r
}

// listen gets every event of the tab. It must not block.
func (p *Page) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.fault("exception: " + e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning || e.Type == runtime.APITypeAssert {
			p.fault(fmt.Sprintf("console.%s: %s", e.Type, arguments(e.Args)))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning || e.Entry.Source == log.SourceSecurity {
			p.fault(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *page.EventJavascriptDialogOpening:
		p.dialog(e)
	case *network.EventRequestWillBeSent:
		p.requested(e.Request)
	case *network.EventWebSocketCreated:
		p.fault("web socket: " + e.URL)
	}
}

func arguments(args []*runtime.RemoteObject) string {
	var texts []string
	for _, a := range args {
		if a.Description != "" {
			texts = append(texts, a.Description)
		} else {
			texts = append(texts, strings.Trim(string(a.Value), `"`))
		}
	}
	return strings.Join(texts, " ")
}

func (p *Page) fault(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, text)
}

// dialog answers a dialog that a script or the browser opened.
func (p *Page) dialog(e *page.EventJavascriptDialogOpening) {
	p.mu.Lock()
	accept := p.leaving
	if e.Type != page.DialogTypeBeforeunload {
		p.faults = append(p.faults, fmt.Sprintf("dialog: %s(%q)", e.Type, e.Message))
	}
	p.mu.Unlock()
	go func() { _ = chromedp.Run(p.ctx, page.HandleJavaScriptDialog(accept)) }()
}

func (p *Page) requested(r *network.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, Request{r.Method, r.URL})
	at, err := url.Parse(r.URL)
	// The browser's own pictures, of calendars for example, are data, and what a page saves is a blob.
	if err != nil || at.Scheme+"://"+at.Host != p.origin && at.Scheme != "blob" && at.Scheme != "data" {
		p.faults = append(p.faults, "request to another origin: "+r.URL)
	}
}

// Expect says that the page may have faults that fit a regular expression, such as a request that
// gets an error.
func (p *Page) Expect(patterns ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pattern := range patterns {
		p.expected = append(p.expected, regexp.MustCompile(pattern))
	}
}

// Faults returns what the page has done so far and the test does not expect.
func (p *Page) Faults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.faults), func(fault string) bool {
		return slices.ContainsFunc(p.expected, func(e *regexp.Regexp) bool { return e.MatchString(fault) })
	})
}

// Requests returns what the page has requested so far.
func (p *Page) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Leave says yes from now on if the browser asks whether to leave the page.
func (p *Page) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = true
}

// check fails the test if the page did what it must not do.
func (p *Page) check() {
	p.t.Helper()
	var kept string
	err := p.try(chromedp.Evaluate(`location.protocol === "about:" ? "" : JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie`, &kept))
	if err == nil && kept != "" && kept != "{}{}" {
		p.t.Errorf("the page keeps %s in the browser", kept)
	}
	for _, fault := range p.Faults() {
		p.t.Errorf("the page has a fault: %s", fault)
	}
}

// Go opens a path of the origin, and waits until it is loaded.
func (p *Page) Go(path string) {
	p.t.Helper()
	p.run("open "+path, chromedp.Navigate(p.origin+path))
}

// Reload loads the page again.
func (p *Page) Reload() {
	p.t.Helper()
	p.run("reload", chromedp.Reload())
}

// Eval evaluates an expression, which may be a promise, and decodes its value into result, which
// may be nil.
func (p *Page) Eval(expression string, result any) {
	p.t.Helper()
	if err := p.try(eval(expression, result)); err != nil {
		p.fatalf("evaluate %s: %v", shortened(expression), err)
	}
}

func eval(expression string, result any) chromedp.Action {
	return chromedp.Evaluate(expression, result, func(e *runtime.EvaluateParams) *runtime.EvaluateParams {
		return e.WithAwaitPromise(true)
	})
}

func shortened(text string) string {
	const most = 300
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// Await waits until an expression is true.
func (p *Page) Await(what, expression string) {
	p.t.Helper()
	p.poll(what, func() error {
		var is bool
		if err := p.try(eval("Boolean("+expression+")", &is)); err != nil {
			return err
		}
		if !is {
			return errors.New("it is false: " + expression)
		}
		return nil
	})
}

// AwaitThat waits until a condition outside the page holds.
func (p *Page) AwaitThat(what string, condition func() bool) {
	p.t.Helper()
	p.poll(what, func() error {
		if !condition() {
			return errors.New("it does not hold")
		}
		return nil
	})
}

// poll repeats f until it returns no error.
func (p *Page) poll(what string, f func() error) {
	p.t.Helper()
	deadline := time.Now().Add(await.Patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.fatalf("not within %s: %s: %v", await.Patience, what, err)
		}
		time.Sleep(interval)
	}
}

// Shot keeps a screenshot of the whole page, or of the window if a dialog is open, if the environment
// asks for screenshots.
func (p *Page) Shot(name string) {
	folder := os.Getenv(ScreenshotsEnv)
	if folder == "" {
		return
	}
	image, err := p.capture()
	if err != nil {
		p.t.Logf("no screenshot %s: %v", name, err)
		return
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), image, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// capture returns an image. The window is as high as the page meanwhile, so that what sticks to its
// ends is there.
func (p *Page) capture() (image []byte, err error) {
	const size = `document.querySelector("dialog:modal") ? [innerWidth, innerHeight] : [innerWidth, Math.max(innerHeight, document.documentElement.scrollHeight)]`
	var now []int64
	err = p.try(
		chromedp.Evaluate(size, &now),
		chromedp.ActionFunc(func(ctx context.Context) error {
			return emulation.SetDeviceMetricsOverride(now[0], now[1], 1, false).Do(ctx)
		}),
		chromedp.CaptureScreenshot(&image),
		chromedp.ActionFunc(func(ctx context.Context) error {
			return emulation.SetDeviceMetricsOverride(now[0], Height, 1, false).Do(ctx)
		}),
	)
	return image, err
}

// Dark asks for the dark colours, or the light ones.
func (p *Page) Dark(dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.run("choose colours", emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}))
}

// Resize changes the width of the window.
func (p *Page) Resize(width int64) {
	p.t.Helper()
	p.run("resize", emulation.SetDeviceMetricsOverride(width, Height, 1, false))
}

// Cookie is a cookie as the browser keeps it.
type Cookie struct {
	Name, Value, Path, SameSite string
	HTTPOnly                    bool
	// Session is whether it ends with the browser.
	Session bool
}

// Cookies returns the cookies of the page, also those that scripts cannot read.
func (p *Page) Cookies() []Cookie {
	p.t.Helper()
	var found []Cookie
	p.run("read the cookies", chromedp.ActionFunc(func(ctx context.Context) error {
		cookies, err := network.GetCookies().WithURLs([]string{p.origin + "/console"}).Do(ctx)
		for _, c := range cookies {
			found = append(found, Cookie{Name: c.Name, Value: c.Value, Path: c.Path, SameSite: string(c.SameSite), HTTPOnly: c.HTTPOnly, Session: c.Session})
		}
		return err
	}))
	return found
}

// Download runs f, which makes the page save a file, and returns its name and content.
func (p *Page) Download(f func()) (name, content string) {
	p.t.Helper()
	folder := p.t.TempDir()
	parent := cdp.WithExecutor(p.ctx, chromedp.FromContext(p.ctx).Browser)
	allow := cdpbrowser.SetDownloadBehavior(cdpbrowser.SetDownloadBehaviorBehaviorAllow).WithBrowserContextID(p.box).WithDownloadPath(folder)
	if err := allow.Do(parent); err != nil {
		p.fatalf("allow the download: %v", err)
	}
	f()
	p.AwaitThat("a file is saved", func() bool {
		files, err := filepath.Glob(folder + "/*")
		if err != nil || len(files) != 1 || strings.HasSuffix(files[0], ".crdownload") || strings.HasPrefix(filepath.Base(files[0]), ".") {
			return false
		}
		text, err := os.ReadFile(files[0])
		name, content = filepath.Base(files[0]), string(text)
		return err == nil
	})
	return name, content
}
