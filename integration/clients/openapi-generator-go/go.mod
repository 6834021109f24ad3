module github.com/seqd/seqd/integration/clients/openapi-generator-go

go 1.26
