// Command clients uses the client of oapi-codegen, which scripts/clients puts into the folder seqd.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/oapi-codegen/nullable"

	"github.com/seqd/seqd/integration/clients/go/seqd"
)

var ctx = context.Background()

func main() {
	log.SetFlags(log.Lshortfile)
	admin := connect(os.Getenv("SEQD_TOKEN"))
	numbers(admin)
	bizTypes(admin)
	tokens(admin)
	service(admin)
	fmt.Println("all as it should be")
}

func connect(token string) *seqd.ClientWithResponses {
	authorize := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	client, err := seqd.NewClientWithResponses(os.Getenv("SEQD_URL"), seqd.WithRequestEditorFn(authorize))
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// answer is the common interface of the generated answers.
type answer interface {
	StatusCode() int
	GetBody() []byte
}

// got returns an answer to a request that was sent.
func got[A answer](a A, err error) A {
	if err != nil {
		log.Fatal(err)
	}
	return a
}

// good returns the content of an answer that must not be an error.
func good[T any](content *T, a answer) *T {
	if content == nil {
		log.Fatalf("%d %s", a.StatusCode(), a.GetBody())
	}
	return content
}

// refused checks that an answer is a problem with this code.
func refused(problem *seqd.Problem, a answer, code seqd.Code) {
	if problem == nil || problem.Status != a.StatusCode() || problem.Code != code {
		log.Fatalf("%d %s, want %s", a.StatusCode(), a.GetBody(), code)
	}
}

// check ends the program unless ok.
func check(holds bool, what any) {
	if !holds {
		text, _ := json.Marshal(what)
		_ = log.Output(2, string(text))
		os.Exit(1)
	}
}

func numbers(admin *seqd.ClientWithResponses) {
	one := got(admin.TakeNumbersWithResponse(ctx, "order", nil))
	issued := good(one.JSON200, one)
	check(issued.Ids == nil && issued.Id != nil && regexp.MustCompile("^[0-9]+$").MatchString(*issued.Id), issued)
	three := got(admin.TakeNumbersWithResponse(ctx, "order", &seqd.TakeNumbersParams{Count: new(3)}))
	check(three.JSON200 != nil && three.JSON200.Id == nil && len(*three.JSON200.Ids) == 3, three.JSON200)

	keyed := &seqd.PostNumbersParams{Count: new(2), IdempotencyKey: new("go")}
	first, again := got(admin.PostNumbersWithResponse(ctx, "order", keyed)), got(admin.PostNumbersWithResponse(ctx, "order", keyed))
	check(slices.Equal(*good(first.JSON200, first).Ids, *good(again.JSON200, again).Ids), again.JSON200)
	check(again.HTTPResponse.Header.Get("Idempotent-Replayed") == "true", again.HTTPResponse.Header)
	keyed.Count = new(3)
	other := got(admin.PostNumbersWithResponse(ctx, "order", keyed))
	refused(other.ApplicationproblemJSON422, other, seqd.CodeIdempotencyKeyReused)

	parsed := got(admin.ParseIDWithResponse(ctx, "order", *issued.Id, nil))
	check(good(parsed.JSON200, parsed).Valid && parsed.JSON200.Number == *issued.Id, parsed.JSON200)
	nobody := got(admin.TakeNumbersWithResponse(ctx, "nobody", nil))
	refused(nobody.ApplicationproblemJSON404, nobody, seqd.CodeUnknownBizType)
}

func bizTypes(admin *seqd.ClientWithResponses) {
	const start = 9_000_000_000_000 // needs more than 32 bits
	put := got(admin.PutBizTypeWithResponse(ctx, "go", nil, seqd.Definition{Start: new(int64(start)), Plugins: &[]seqd.Binding{{Name: "stats"}}}))
	made := good(put.JSON201, put)
	check(made.Name == "go" && made.Enabled && *made.Definition.Start == start, made)
	list := got(admin.ListBizTypesWithResponse(ctx, &seqd.ListBizTypesParams{Limit: new(1000)}))
	listed := good(list.JSON200, list).BizTypes
	check(slices.ContainsFunc(listed, func(b seqd.BizType) bool { return b.Name == "go" }), listed)

	get := got(admin.GetBizTypeWithResponse(ctx, "go"))
	check(good(get.JSON200, get).Version == made.Version, get.JSON200)
	matching := &seqd.PatchBizTypeParams{IfMatch: new(get.HTTPResponse.Header.Get("ETag"))}
	patch := got(admin.PatchBizTypeWithResponse(ctx, "go", matching, seqd.DefinitionPatch{"step": 500}))
	check(*good(patch.JSON200, patch).Definition.Step == 500, patch.JSON200)
	patch = got(admin.PatchBizTypeWithResponse(ctx, "go", matching, seqd.DefinitionPatch{"step": 600}))
	refused(patch.ApplicationproblemJSON412, patch, seqd.CodePreconditionFailed)
	patch = got(admin.PatchBizTypeWithResponse(ctx, "go", nil, seqd.DefinitionPatch{"step": 0}))
	refused(patch.ApplicationproblemJSON400, patch, seqd.CodeInvalidDefinition)
	check((*patch.ApplicationproblemJSON400.Problems)[0].Key == "step", patch.ApplicationproblemJSON400)
}

func tokens(admin *seqd.ClientWithResponses) {
	request := seqd.TokenRequest{Name: "go", Scopes: seqd.Scopes{"issue:go"}}
	create := got(admin.CreateTokenWithResponse(ctx, request))
	made := good(create.JSON201, create)
	check(made.Enabled, made)
	create = got(admin.CreateTokenWithResponse(ctx, request))
	refused(create.ApplicationproblemJSON409, create, seqd.CodeConflict)
	shop := connect(made.Secret)
	take := got(shop.TakeNumbersWithResponse(ctx, "go", nil))
	check(*good(take.JSON200, take).Id == "9000000000000", take.JSON200)
	list := got(shop.ListTokensWithResponse(ctx, nil))
	refused(list.ApplicationproblemJSON403, list, seqd.CodeForbidden)
	list = got(connect("seqd_wrong").ListTokensWithResponse(ctx, nil))
	refused(list.ApplicationproblemJSON401, list, seqd.CodeUnauthorized)

	expires := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	patch := got(admin.PatchTokenWithResponse(ctx, "go", nil, seqd.TokenPatch{Expires: nullable.NewNullableWithValue(expires)}))
	check(good(patch.JSON200, patch).Expires.Equal(expires), patch.JSON200)
	patch = got(admin.PatchTokenWithResponse(ctx, "go", nil, seqd.TokenPatch{Expires: nullable.NewNullNullable[time.Time](), Enabled: new(false)}))
	check(good(patch.JSON200, patch).Expires == nil && !patch.JSON200.Enabled, patch.JSON200)
	removed := got(admin.DeleteTokenWithResponse(ctx, "go", nil))
	check(removed.StatusCode() == http.StatusNoContent, string(removed.Body))
	get := got(admin.GetTokenWithResponse(ctx, "go"))
	refused(get.ApplicationproblemJSON404, get, seqd.CodeNotFound)
}

func service(admin *seqd.ClientWithResponses) {
	stats := got(admin.GetStatsWithResponse(ctx, "go"))
	check(good(stats.JSON200, stats).Issued == 1, stats.JSON200)
	ready := got(admin.ReadinessWithResponse(ctx, nil))
	check(good(ready.JSON200, ready).Status == seqd.Ready, ready.JSON200)
	nodes := got(admin.ListNodesWithResponse(ctx))
	check(good(nodes.JSON200, nodes).Nodes[0].Self, nodes.JSON200)
	removed := got(admin.DeleteBizTypeWithResponse(ctx, "go", nil))
	check(removed.StatusCode() == http.StatusNoContent, string(removed.Body))
}
