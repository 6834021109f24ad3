package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/pb33f/libopenapi/orderedmap"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

// call is a request and its expected answer.
type call struct {
	// op is the route in the document: method and path.
	op string
	// part describes the call in messages, in addition to the route; it may be "".
	part string
	// target is the path and the query.
	target string
	// headers are lines of the form "Name: value".
	headers []string
	body    string
	// status is the status of the answer.
	status int
	// code is the code of the problem, "" for a good answer.
	code string
	// wrong means that the request itself does not fit the document.
	wrong bool
}

// answer is an answer.
type answer struct {
	header http.Header
	body   []byte
}

// checker compares every request and answer with the document.
type checker struct {
	*testing.T
	document  *v3.Document
	validator validator.Validator
	client    *http.Client
	driven    map[string]map[int]bool // by op
}

// newChecker reads the document that a node serves, which must be valid.
func newChecker(t *testing.T, url string) *checker {
	t.Helper()
	resp := must.Get(http.Get(url + "/openapi.json"))(t)
	defer resp.Body.Close()
	source := must.Get(io.ReadAll(resp.Body))(t)
	document := must.Get(libopenapi.NewDocument(closed(t, source)))(t)
	model := must.Get(document.BuildV3Model())(t)
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatalf("the document: %v", errs)
	}
	if ok, wrong := v.ValidateDocument(); !ok {
		for _, w := range wrong {
			t.Errorf("the document is not OpenAPI 3.1: %s: %s %v", w.Message, w.Reason, w.SchemaValidationErrors)
		}
	}
	c := &checker{T: t, document: &model.Model, validator: v, driven: make(map[string]map[int]bool)}
	c.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	t.Cleanup(c.client.CloseIdleConnections)
	return c
}

// closed returns the document with schemas that allow only the fields they name. The document
// itself leaves answers open for the clients of later versions.
func closed(t *testing.T, source []byte) []byte {
	t.Helper()
	var document map[string]any
	must.Do(t, json.Unmarshal(source, &document))
	for _, schema := range document["components"].(map[string]any)["schemas"].(map[string]any) {
		schema := schema.(map[string]any)
		if _, said := schema["additionalProperties"]; !said && schema["properties"] != nil {
			schema["additionalProperties"] = false
		}
	}
	return must.Get(json.Marshal(document))(t)
}

// examples checks the examples of schemas.
func (c *checker) examples() {
	c.Helper()
	found := 0
	for name, proxy := range c.document.Components.Schemas.FromOldest() {
		schema := proxy.Schema()
		if schema.Example == nil {
			continue
		}
		found++
		var example any
		must.Do(c, schema.Example.Decode(&example))
		if ok, wrong := schema_validation.NewSchemaValidator().ValidateSchemaObject(schema, example); !ok {
			for _, w := range wrong {
				c.Errorf("the example of %s: %s %v", name, w.Reason, w.SchemaValidationErrors)
			}
		}
	}
	if found == 0 {
		c.Error("no schema has an example")
	}
}

// operations lists the routes of the document with their descriptions.
func (c *checker) operations() map[string]*v3.Operation {
	all := make(map[string]*v3.Operation)
	for path, item := range c.document.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			all[strings.ToUpper(method)+" "+path] = op
		}
	}
	return all
}

// on sends a call to a node, and checks the request and the answer.
func (c *checker) on(url string, call call) (a answer) {
	c.Helper()
	what := fmt.Sprintf("%s %s %s: ", call.op, cut(call.target), call.part)
	if !call.wrong {
		if ok, wrong := c.validator.ValidateHttpRequestSync(c.request(url, call)); !ok {
			for _, w := range wrong {
				c.Errorf("%sthe request: %s: %s %v", what, w.Message, w.Reason, w.SchemaValidationErrors)
			}
		}
	}
	sent := c.request(url, call)
	resp, err := c.client.Do(sent)
	if err != nil {
		c.Fatalf("%s%v", what, err)
	}
	defer resp.Body.Close()
	a.header = resp.Header
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		c.Fatalf("%s%v", what, err)
	}
	if resp.StatusCode != call.status || call.code != "" && !bytes.Contains(a.body, []byte(`"code":"`+call.code+`"`)) {
		c.Errorf("%s%d %s %s, want %d %s", what, resp.StatusCode, cut(string(a.body)), a.header.Get("Content-Type"), call.status, call.code)
	}
	c.compare(what, call, resp, a)
	if c.driven[call.op] == nil {
		c.driven[call.op] = make(map[int]bool)
	}
	c.driven[call.op][resp.StatusCode] = true
	return a
}

// compare checks an answer against the document.
func (c *checker) compare(what string, call call, resp *http.Response, a answer) {
	c.Helper()
	resp.Body = io.NopCloser(bytes.NewReader(a.body))
	asked := c.request("http://seqd", call)
	if ok, wrong := c.validator.GetResponseBodyValidator().ValidateResponseBody(asked, resp); !ok && call.method() != http.MethodHead {
		for _, w := range wrong {
			c.Errorf("%sthe answer %d: %s: %s %v\n%s", what, resp.StatusCode, w.Message, w.Reason, w.SchemaValidationErrors, cut(string(a.body)))
		}
	}
	// The library does not check the following.
	op := c.operations()[call.op]
	if op == nil {
		c.Errorf("%sthe document has no such route", what)
		return
	}
	documented := op.Responses.Codes.GetOrZero(fmt.Sprint(resp.StatusCode))
	if documented == nil {
		c.Errorf("%sthe document has no answer %d", what, resp.StatusCode)
		return
	}
	for name, header := range documented.Headers.FromOldest() {
		if header.Required && resp.Header.Get(name) == "" {
			c.Errorf("%sthe answer %d has no header %s", what, resp.StatusCode, name)
		}
	}
	if orderedmap.Len(documented.Content) == 0 && len(a.body) > 0 {
		c.Errorf("%sthe answer %d has a body, and the document has none", what, resp.StatusCode)
	}
	c.beyondSchemas(what, call, resp.StatusCode, documented, a)
}

// beyondSchemas checks what the document says in text and in x-codes, because generators do not
// understand it as schemas.
func (c *checker) beyondSchemas(what string, call call, status int, documented *v3.Response, a answer) {
	c.Helper()
	switch a.header.Get("Content-Type") {
	case "application/problem+json":
		c.problem(what, status, documented, a)
	case "application/json":
		if strings.HasSuffix(call.op, " /seq/{bizType}") {
			c.issued(what, call, a)
		}
	}
}

// problem checks that an error body has the status of the answer, and one of the documented codes.
func (c *checker) problem(what string, status int, documented *v3.Response, a answer) {
	c.Helper()
	var problem struct {
		Type, Code string
		Status     int
	}
	if err := json.Unmarshal(a.body, &problem); err != nil && len(a.body) > 0 { // HEAD has no body
		c.Errorf("%sthe answer %d: %v", what, status, err)
	}
	if len(a.body) > 0 && (problem.Status != status || !strings.HasSuffix(problem.Type, "errors/"+problem.Code)) {
		c.Errorf("%sthe answer %d has a body with the status %d, of the type %s", what, status, problem.Status, problem.Type)
	}
	var codes []string
	if node := documented.Extensions.GetOrZero("x-codes"); node == nil {
		return // /readyz may have any code
	} else if err := node.Decode(&codes); err != nil {
		c.Fatal(err)
	}
	if len(a.body) > 0 && !slices.Contains(codes, problem.Code) {
		c.Errorf("%sthe answer %d has the code %s, want one of %q", what, status, problem.Code, codes)
	}
}

// issued checks that numbers come as id without a count, and as ids with one.
func (c *checker) issued(what string, call call, a answer) {
	c.Helper()
	var issued struct {
		ID  *string
		IDs *[]string
	}
	if err := json.Unmarshal(a.body, &issued); err != nil {
		c.Errorf("%s%v", what, err)
	}
	counted := strings.Contains(call.target, "count=")
	if (issued.IDs != nil) != counted || (issued.ID != nil) == counted {
		c.Errorf("%sthe answer is %s", what, cut(string(a.body)))
	}
}

func (call call) method() string { method, _, _ := strings.Cut(call.op, " "); return method }

// request returns a new request for a call.
func (c *checker) request(url string, call call) *http.Request {
	c.Helper()
	var body io.Reader
	if call.body != "" {
		body = strings.NewReader(call.body)
	}
	r := must.Get(http.NewRequest(call.method(), url+call.target, body))(c)
	for _, line := range call.headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return r
}

// finish fails for documented answers that no call has produced.
func (c *checker) finish() {
	c.Helper()
	operations := c.operations()
	for _, op := range slices.Sorted(maps.Keys(operations)) {
		var missed []string
		for status := range operations[op].Responses.Codes.FromOldest() {
			var number int
			_, _ = fmt.Sscan(status, &number)
			switch driven := c.driven[op][number]; {
			case driven:
			case number < 400:
				c.Errorf("%s never answered %d", op, number)
			default:
				missed = append(missed, status)
			}
		}
		c.Logf("%s: driven to %v, not to %v", op, slices.Sorted(maps.Keys(c.driven[op])), missed)
	}
}

func cut(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}
