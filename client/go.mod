module github.com/seqd/seqd/client

go 1.24
