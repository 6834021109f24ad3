// Command clients uses the Go client of openapi-generator, which scripts/clients puts into the
// folder seqd.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/seqd/seqd/integration/clients/openapi-generator-go/seqd"
)

const name = "openapi-generator-go"

func main() {
	log.SetFlags(log.Lshortfile)
	configuration := seqd.NewConfiguration()
	configuration.Servers = seqd.ServerConfigurations{{URL: os.Getenv("SEQD_URL")}}
	client, admin := seqd.NewAPIClient(configuration), as(os.Getenv("SEQD_TOKEN"))
	numbers(admin, client.NumbersAPI)
	bizTypes(admin, client.BizTypesAPI)
	tokens(admin, client)
	if _, err := client.BizTypesAPI.DeleteBizType(admin, name).Execute(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("all as it should be")
}

// as returns the context of requests that carry a token.
func as(token string) context.Context {
	return context.WithValue(context.Background(), seqd.ContextAccessToken, token)
}

// good ends the program if an answer is an error or not as expected.
func good(answer any, err error, holds bool) {
	if err != nil || !holds {
		_ = log.Output(2, fmt.Sprintf("%+v, %v", answer, err))
		os.Exit(1)
	}
}

// refused checks that an error is a problem with this code.
func refused(err error, code seqd.Code) {
	var refusal *seqd.GenericOpenAPIError
	if !errors.As(err, &refusal) {
		log.Fatalf("the answer is %v, want %s", err, code)
	}
	if problem, ok := refusal.Model().(seqd.Problem); !ok || problem.Code != code {
		log.Fatalf("the answer is %s, want %s", refusal.Body(), code)
	}
}

func numbers(admin context.Context, api *seqd.NumbersAPIService) {
	one, _, err := api.TakeNumbers(admin, "order").Execute()
	good(one, err, one.HasId() && !one.HasIds())
	three, _, err := api.TakeNumbers(admin, "order").Count(3).Execute()
	good(three, err, len(three.GetIds()) == 3 && !three.HasId())
	parsed, _, err := api.ParseID(admin, "order", one.GetId()).Execute()
	good(parsed, err, parsed.Valid && parsed.Number == one.GetId())
	_, _, err = api.TakeNumbers(admin, "nobody").Execute()
	refused(err, seqd.CODE_UNKNOWN_BIZ_TYPE)
}

func bizTypes(admin context.Context, api *seqd.BizTypesAPIService) {
	const start = 9_000_000_000_000 // more than 32 bits have
	made, _, err := api.PutBizType(admin, name).Definition(seqd.Definition{Start: new(int64(start))}).Execute()
	good(made, err, made.Enabled && made.Definition.GetStart() == start)
	got, answer, err := api.GetBizType(admin, name).Execute()
	good(got, err, got.Version == made.Version)
	patch := api.PatchBizType(admin, name).RequestBody(map[string]any{"step": 500}).IfMatch(answer.Header.Get("ETag"))
	changed, _, err := patch.Execute()
	good(changed, err, changed.Definition.GetStep() == 500)
	_, _, err = patch.Execute()
	refused(err, seqd.CODE_PRECONDITION_FAILED)
}

func tokens(admin context.Context, client *seqd.APIClient) {
	request := seqd.NewTokenRequest(name, []string{"issue:" + name})
	made, _, err := client.TokensAPI.CreateToken(admin).TokenRequest(*request).Execute()
	good(made, err, made.Enabled)
	issued, _, err := client.NumbersAPI.TakeNumbers(as(made.Secret), name).Execute()
	good(issued, err, issued.GetId() == "9000000000000")
	_, _, err = client.TokensAPI.ListTokens(as(made.Secret)).Execute()
	refused(err, seqd.CODE_FORBIDDEN)
	changed, _, err := client.TokensAPI.PatchToken(admin, name).TokenPatch(seqd.TokenPatch{Enabled: new(false)}).Execute()
	good(changed, err, !changed.Enabled)
	if _, err := client.TokensAPI.DeleteToken(admin, name).Execute(); err != nil {
		log.Fatal(err)
	}
}
